#pragma once
// What the products of NVIDIA GPUs share. Thread safety: plain values.
#include <cstdint>

namespace millrace::engine {

inline constexpr std::uint32_t warp_items = 32;

// The parts of `each` that `count` fills.
constexpr std::uint32_t parts(std::uint32_t count, std::uint32_t each) {
  return (count + each - 1) / each;
}

}  // namespace millrace::engine
