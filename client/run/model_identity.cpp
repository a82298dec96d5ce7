#include "client/run/model_identity.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "schemas/base/hash.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/split_name.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t sample_bytes = 64 * limits::KiB;
constexpr std::uint64_t samples = 256;

// The size of a file and a hash of samples of it.
Result<std::string> file_identity(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(auto file, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const std::uint64_t size, file->size());
  Hasher128 hasher;
  std::string block(sample_bytes, '\0');
  const std::uint64_t step = std::max(sample_bytes, size / samples);
  for (std::uint64_t at = 0; at < size; at += step) {
    MILLRACE_ASSIGN(const std::size_t got, file->read_at(at, std::span(block)));
    hasher.update(std::string_view(block).substr(0, got));
  }
  return std::to_string(size) + "-" + hasher.digest().hex();
}

// The identities of a model folder's files together.
Result<std::string> folder_identity(Env& env, const std::string& folder) {
  std::string all;
  MILLRACE_ASSIGN(const auto names, env.list(folder));
  for (const std::string& name : names) {
    const bool is_read =
        name.ends_with(".json") || name.ends_with(".jinja") || name.ends_with(".safetensors");
    if (!is_read) continue;
    MILLRACE_ASSIGN(const std::string identity, file_identity(env, folder + "/" + name));
    all += name + " " + identity + "\n";
  }
  return "folder-" + hash128(all).hex();
}

}  // namespace

Result<std::string> model_identity(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(const bool is_folder, env.exists(path + "/config.json"));
  if (is_folder) return folder_identity(env, path);
  const auto split = split_name(path);
  if (!split || split->count == 1) return file_identity(env, path);
  std::string all;
  for (std::uint32_t number = 1; number <= split->count; ++number) {
    const std::string part = split->part(number);
    MILLRACE_ASSIGN(const bool is_there, env.exists(part));
    if (!is_there) return "split, without part " + std::to_string(number);  // the engine refuses it
    MILLRACE_ASSIGN(const std::string identity, file_identity(env, part));
    all += identity + "\n";
  }
  return "split-" + hash128(all).hex();
}

}  // namespace millrace::client
