#include "tests/support/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t count = 0;
}

std::size_t allocations() {
  return count;
}

// This lies in a file of its own, so that the compiler cannot see from a caller through to malloc.
void* operator new(std::size_t size) {
  ++count;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
