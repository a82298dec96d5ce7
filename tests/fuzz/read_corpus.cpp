// The main program of fuzz targets in builds without libFuzzer. It runs the target on each file of
// the given folders, in order of path. A failure ends the program; the last line that it printed
// names the input.
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

// Returns no file at all if one of the folders cannot be read or has no file.
std::set<std::filesystem::path> files_of(int count, char** folders) {
  std::set<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    const std::size_t before = files.size();
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folders[i], error)) {
      if (entry.is_regular_file()) files.insert(entry.path());
    }
    if (error || files.size() == before) {
      std::fprintf(stderr, "no readable input in %s: give folders that contain inputs\n",
                   folders[i]);
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
