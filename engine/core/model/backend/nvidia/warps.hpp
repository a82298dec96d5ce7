#pragma once
// What the kernels of NVIDIA GPUs share. Thread safety: plain values.
#include <algorithm>
#include <cstdint>

#include "engine/core/model/panel.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t warp_items = 32;

// The parts of `each` that `count` fills.
constexpr std::uint32_t parts(std::uint32_t count, std::uint32_t each) {
  return (count + each - 1) / each;
}

// Vectors of 8 channels of a row, for kernels that keep it in registers (quantize/byte_row.cl).
constexpr std::uint32_t row_vectors(std::uint32_t columns) {
  constexpr std::uint32_t vector_channels = 8;
  return round_up(columns, panel_rows) / vector_channels;
}

// Work-items of such a row: one for each vector, or in wide rows for two, and more where a group is
// as large as it may be.
constexpr std::uint32_t row_items(std::uint32_t vectors) {
  constexpr std::uint32_t narrow = 256, most = 512;
  const std::uint32_t wanted = vectors <= narrow ? vectors : parts(vectors, 2);
  return std::min(most, round_up(wanted, warp_items));
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
