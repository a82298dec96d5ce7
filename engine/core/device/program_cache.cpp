#include "engine/core/device/program_cache.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "schemas/base/env.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view magic = "MRPROG01";
constexpr std::size_t header_bytes = 8 + 4 * 8;
constexpr std::uint64_t largest_file = 256ull << 20;

void append_u64(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>((value >> shift) & 0xff);
}

std::string header_of(const Hash128& key, std::string_view binary) {
  std::string header(magic);
  append_u64(header, key.high);
  append_u64(header, key.low);
  append_u64(header, hash64(binary));
  append_u64(header, binary.size());
  return header;
}

}  // namespace

std::string cache_home() {
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base != nullptr && *base != '\0') {
    return std::string(base) + "/millrace";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/millrace";
  }
  return {};
}

std::string ProgramCache::default_folder() {
  if (const std::string home = cache_home(); !home.empty()) return home + "/programs";
  log_warn("neither XDG_CACHE_HOME nor HOME is set: every start compiles its programs");
  return {};
}

std::string ProgramCache::path_of(const Hash128& key, std::string_view name) const {
  return folder_ + "/" + std::string(name) + "-" + key.hex() + ".bin";
}

bool ProgramCache::holds(const Hash128& key, std::string_view name) const {
  return on() && posix_env()->exists(path_of(key, name)).value_or(false);
}

std::optional<std::string> ProgramCache::load(const Hash128& key, std::string_view name) const {
  if (folder_.empty()) return std::nullopt;
  const auto env = posix_env();
  const std::string path = path_of(key, name);
  const auto exists = env->exists(path);
  if (!exists || !*exists) return std::nullopt;
  auto content = read_file(*env, path, largest_file);
  if (!content) {
    log_warn("a cached program cannot be read and is built again", content.error());
    return std::nullopt;
  }
  const std::string_view bytes = *content;
  if (bytes.size() < header_bytes ||
      bytes.substr(0, header_bytes) != header_of(key, bytes.substr(header_bytes))) {
    log_warn("a cached program is damaged and is built again", {{"file", path}});
    return std::nullopt;
  }
  return content->substr(header_bytes);
}

void ProgramCache::store(const Hash128& key, std::string_view name, std::string_view binary) const {
  if (folder_.empty()) return;
  const auto env = posix_env();
  if (auto made = env->make_directories(folder_); !made) {
    log_warn("the program cache cannot be written", made.error());
    return;
  }
  const auto written =
      write_file_atomically(*env, path_of(key, name), header_of(key, binary) + std::string(binary));
  if (!written) log_warn("the program cache cannot be written", written.error());
}

}  // namespace millrace::engine
