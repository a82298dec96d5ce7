#pragma once
// A file of this process with the input of a fuzz target, for code that reads files by their path.
// Only its owner may read it. Thread safety: one thread.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

class FuzzFile {
 public:
  FuzzFile() {
    std::string path = (std::filesystem::temp_directory_path() / "millrace-fuzz-XXXXXX").string();
    const int descriptor = ::mkstemp(path.data());
    if (descriptor < 0) std::abort();
    ::close(descriptor);
    path_ = path;
  }
  ~FuzzFile() { std::filesystem::remove(path_); }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;

  // Replaces the content and returns the path.
  const std::string& with(std::string_view content) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file.flush()) std::abort();
    return path_;
  }

 private:
  std::string path_;
};

inline std::string_view input_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
inline void require(bool holds) {
  if (!holds) std::abort();
}
