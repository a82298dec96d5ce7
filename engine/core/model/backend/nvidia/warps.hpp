#pragma once
// What the products and the attention of NVIDIA GPUs share. Thread safety: plain values.
#include <cstdint>

namespace millrace::engine {

inline constexpr std::uint32_t warp_items = 32;

// The parts of `each` that `count` fills.
constexpr std::uint32_t parts(std::uint32_t count, std::uint32_t each) {
  return (count + each - 1) / each;
}

// The local memory that a group may use, which the driver of these GPUs allows beyond the 48 KiB
// that it reports.
constexpr std::uint32_t local_limit(std::uint32_t compute_capability) {
  constexpr std::uint32_t kib = 1024;
  switch (compute_capability) {
    case 90:
    case 100:
    case 103:
      return 226 * kib;
    case 80:
    case 87:
      return 162 * kib;
    case 0:  // another kind of device, where tests force this family
      return ~0u;
    default:
      return 98 * kib;
  }
}

}  // namespace millrace::engine
