#include "engine/core/model/fingerprint.hpp"

#include <algorithm>
#include <string_view>

#include "kernels/sources.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint64_t MiB = 1ull << 20;
constexpr std::uint64_t whole_file_bytes = 1024 * MiB;
constexpr std::uint64_t pieces = 4096, piece_bytes = 64 * 1024;

}  // namespace

Hash128 hash_model_file(const GgufFile& file) {
  const auto bytes = file.bytes();
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Hasher128 hasher;
  hasher.update(std::to_string(view.size()) + "\n");
  if (view.size() <= whole_file_bytes) {
    hasher.update(view);
    return hasher.digest();
  }
  hasher.update(view.substr(0, 16 * MiB));
  for (std::uint64_t i = 0; i < pieces; ++i) {
    hasher.update(view.substr(view.size() / pieces * i, piece_bytes));
  }
  hasher.update(view.substr(view.size() - MiB));
  return hasher.digest();
}

Hash128 hash_kernel_sources() {
  Hasher128 hasher;
  for (const kernels::Source& source : kernels::sources()) {
    hasher.update(source.path);
    hasher.update(std::string_view("\0", 1));
    hasher.update(source.text);
    hasher.update(std::string_view("\0", 1));
  }
  return hasher.digest();
}

std::string numeric_fingerprint(const GgufFile& file, const std::string& kv, MathMode math,
                                const DeviceInfo& device) {
  std::string text = "millrace numeric fingerprint 1\n";
  text += "model " + hash_model_file(file).hex() + "\n";
  text += "kv " + kv + "\n";
  text += std::string("math ") + (math == MathMode::exact ? "exact" : "fast") + "\n";
  text += "reduction " + std::to_string(reduction_layout_version) + "\n";
  text += "device " + device.platform + "/" + device.name + "\n";
  text += "driver " + device.driver + "\n";
  text += "kernels " + hash_kernel_sources().hex() + "\n";
  return hash128(text).hex();
}

}  // namespace millrace::engine
