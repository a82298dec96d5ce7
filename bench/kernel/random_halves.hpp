#pragma once
// Random bytes for memory that kernels read in any form. Thread safety: pure functions.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::engine {

// Halves below 1 in size, wherever a kernel reads one, for instance as a scale.
inline std::vector<std::byte> random_halves(std::size_t bytes, std::uint32_t state = 1) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; i += 2) {
    state = state * 1664525 + 1013904223;
    const std::uint32_t half = 0x2000 | (state >> 16 & 0x8bff);
    out[i] = static_cast<std::byte>(half & 0xff);
    if (i + 1 < bytes) out[i + 1] = static_cast<std::byte>(half >> 8);
  }
  return out;
}

}  // namespace millrace::engine
