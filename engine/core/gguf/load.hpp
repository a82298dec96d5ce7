#pragma once
// Reads a value from a file's bytes at any alignment. Thread safety: a pure function.
#include <cstddef>
#include <cstring>

namespace millrace::engine {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace millrace::engine
