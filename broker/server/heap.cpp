#include "broker/server/heap.hpp"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

namespace millrace::broker {
namespace {

// The process's memory that no file backs. The kernel counts pages: all, and those of files.
std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return (resident - shared) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void set_up_heap() {
  mallopt(M_MMAP_THRESHOLD, 4 * 1024 * 1024);
  mallopt(M_TRIM_THRESHOLD, 16 * 1024 * 1024);
}

void return_free_memory() {
  const auto resident = resident_bytes();
  if (resident <= free_memory_kept_bytes) return;
  const auto heap = mallinfo2();
  if (resident > heap.uordblks + heap.hblkhd + free_memory_kept_bytes) malloc_trim(0);
}

}  // namespace millrace::broker
