#include "engine/core/model/fingerprint.hpp"

#include <algorithm>
#include <string_view>

#include "kernels/sources.hpp"

namespace millrace::engine {

// Hashes the whole file, part by part. Loading reads every byte anyway, and hashing keeps up with
// any disk.
Hash128 hash_model_file(const GgufFile& file, const std::stop_token& stop) {
  constexpr std::size_t at_once = std::size_t{1} << 24;
  Hasher128 hasher;
  for (const auto& part : file.parts()) {
    const auto bytes = part->view();
    std::string_view left(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (; !left.empty() && !stop.stop_requested();
         left.remove_prefix(std::min(at_once, left.size()))) {
      hasher.update(left.substr(0, at_once));
    }
  }
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

std::string numeric_fingerprint(const Hash128& model, const std::string& kv, MathMode math,
                                const DeviceInfo& device) {
  std::string text = "millrace numeric fingerprint 1\n";
  text += "model " + model.hex() + "\n";
  text += "kv " + kv + "\n";
  text += "math " + std::string(math_name(math)) + "\n";
  text += "reduction " + std::to_string(reduction_layout_version) + "\n";
  text += numeric_identity(device);
  text += "kernels " + hash_kernel_sources().hex() + "\n";
  return hash128(text).hex();
}

}  // namespace millrace::engine
