// A main for fuzz targets where there is no libFuzzer: each file of the folders given is one input,
// in order of path. What fails in one ends the program; the last line printed names it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// Empty where one of the folders cannot be read or holds no file.
std::set<std::filesystem::path> files_of(int count, char** folders) {
  std::set<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    const std::size_t before = files.size();
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folders[i], error)) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
    if (error || files.size() == before) {
      std::fprintf(stderr, "no inputs in %s: give folders that hold some\n", folders[i]);
      return {};
    }
  }
  return files;
}

}  // namespace

int main(int count, char** arguments) {
  const auto files = files_of(count - 1, arguments + 1);
  if (files.empty()) return 2;
  for (const auto& path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file) return 2;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return 0;
}
