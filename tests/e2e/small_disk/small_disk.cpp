// Simulates a small disk. Preloaded into a process, it limits the size of one folder to a number in
// a file, which a test may change at any time. Calls that would grow the folder's files beyond that
// fail with ENOSPC, and statvfs reports the rest.
//
//   LD_PRELOAD=libsmall_disk.so SMALL_DISK_FOLDER=/a/folder SMALL_DISK_BYTES=/a/file PROGRAM...
//
// It works for programs that write by pwrite, as the ledger and SQLite do, and needs neither root
// nor a mount nor a quota.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

const std::string& folder() {
  static const std::string path = from_environment("SMALL_DISK_FOLDER");
  return path;
}

std::uint64_t capacity() {
  std::uint64_t bytes = 0;
  std::ifstream(from_environment("SMALL_DISK_BYTES")) >> bytes;
  return bytes;
}

std::uint64_t used() {
  std::uint64_t sum = 0;
  DIR* const entries = ::opendir(folder().c_str());
  if (entries == nullptr) return 0;
  while (const dirent* entry = ::readdir(entries)) {
    struct stat info {};
    if (::fstatat(dirfd(entries), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      sum += static_cast<std::uint64_t>(info.st_size);
    }
  }
  ::closedir(entries);
  return sum;
}

bool is_inside(int descriptor) {
  if (folder().empty()) return false;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return size > 0 &&
         std::string(path.data(), static_cast<std::size_t>(size)).starts_with(folder() + "/");
}

bool fits(int descriptor, std::size_t count, off_t offset) {
  if (!is_inside(descriptor)) return true;
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return true;
  const auto end = static_cast<std::uint64_t>(offset) + count;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  return end <= size || used() + (end - size) <= capacity();
}

template <class Function>
Function next_symbol(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

using Pwrite = ssize_t (*)(int, const void*, std::size_t, off_t);

ssize_t write_if_it_fits(int descriptor, const void* data, std::size_t count, off_t offset) {
  static const auto real = next_symbol<Pwrite>("pwrite64");
  if (fits(descriptor, count, offset)) return real(descriptor, data, count, offset);
  errno = ENOSPC;
  return -1;
}

void tell_what_is_left(const char* path, struct statvfs* info) {
  if (folder().empty() || !std::string(path).starts_with(folder())) return;
  const std::uint64_t size = capacity();
  info->f_frsize = info->f_bsize = 1;
  info->f_blocks = size;
  info->f_bfree = info->f_bavail = size - std::min(size, used());
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* data, std::size_t count, off_t offset) {
  return write_if_it_fits(descriptor, data, count, offset);
}
ssize_t pwrite64(int descriptor, const void* data, std::size_t count, off64_t offset) {
  return write_if_it_fits(descriptor, data, count, offset);
}
int statvfs(const char* path, struct statvfs* info) noexcept {
  static const auto real = next_symbol<int (*)(const char*, struct statvfs*)>("statvfs");
  const int rc = real(path, info);
  if (rc == 0) tell_what_is_left(path, info);
  return rc;
}
}
