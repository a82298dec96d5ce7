// A mapped file that is not in memory is read when it is asked for, before anything touches it.
#include "engine/core/gguf/bytes.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

// How many pages of mapped bytes are in memory.
std::size_t pages_present(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((bytes.size() + page - 1) / page);
  void* const address = const_cast<std::byte*>(bytes.data());
  if (::mincore(address, bytes.size(), present.data()) != 0) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(present, [](unsigned char flags) { return (flags & 1) != 0; }));
}

TEST(MappedFile, IsReadAhead) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const fs::path path =
      fs::path(::testing::TempDir()) / ("millrace-ahead-" + std::to_string(::getpid()));
  const std::size_t size = 1024 * page;
  std::ofstream(path, std::ios::binary) << std::string(size, 'x');
  // Out of memory with it. Some file systems, such as those in memory, keep their pages.
  const int file = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(file, 0);
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
  const auto mapped = map_file(path.string());
  ASSERT_TRUE(mapped);
  fs::remove(path);
  const std::span<const std::byte> bytes = (*mapped)->view();
  if (pages_present(bytes) > 0) GTEST_SKIP() << "the file cannot be put out of memory";
  // From the middle of a page on, and a few pages.
  will_read(bytes.subspan(500 * page + 7, 8 * page));
  const auto asked = bytes.subspan(500 * page, 9 * page);
  for (int i = 0; i < 20'000 && pages_present(asked) < 9; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(pages_present(asked), 9u);
  EXPECT_LT(pages_present(bytes), 1024u) << "the rest was not asked for";
  will_read({});
  const std::vector<std::byte> other(100);
  will_read(other);  // no file
}

}  // namespace
}  // namespace millrace::engine
