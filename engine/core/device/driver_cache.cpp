#include "engine/core/device/driver_cache.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string pocl_cache_folder() {
  // PoCL ignores a POCL_CACHE_DIR that it cannot write.
  std::string own = variable("POCL_CACHE_DIR");
  if (!own.empty() && ::access(own.c_str(), W_OK) == 0) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/pocl/kcache";
  }
  const std::string home = variable("HOME");
  return home.empty() ? "/tmp/pocl/kcache" : home + "/.cache/pocl/kcache";
}

std::optional<std::string> pocl_cache_trouble() {
  const fs::path folder = pocl_cache_folder();
  // The longest part of the path that exists: PoCL would have to create the rest in it.
  std::error_code error;
  fs::path present = fs::absolute(folder, error);
  while (!error && present.has_relative_path() && !fs::exists(present, error)) {
    present = present.parent_path();
    error.clear();
  }
  std::error_code unknown;
  if (!fs::is_directory(present, unknown)) {
    return folder.string() + " cannot be created: " + present.string() + " is not a folder";
  }
  if (::access(present.c_str(), W_OK | X_OK) == 0) return std::nullopt;
  return (present == folder
              ? folder.string() + " cannot be written"
              : folder.string() + " cannot be created: " + present.string() + " cannot be written");
}

}  // namespace millrace::engine
