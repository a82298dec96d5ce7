#pragma once
// What kernels read of a weight matrix: panels of 16 rows, and the numbers in them, the same for
// all file types and families of devices. Where the numbers stand in a panel is the backend's
// (backend/panel_layout.hpp). Every quantized file type maps to this format exactly:
//
//   codes   unsigned, 2, 4, 5, 6 or 8 bits; a weight is d * (code - offset), or d * code + m if
//   affine levels  of types whose codes number the entries of a table: a weight is d * level[code].
//   The
//           panel holds its table, so that types with different tables share kernels
//   floats  codes that are floats of 4 bits, one of sign, two of exponent and one of fraction: a
//           weight is d / 8 * float. Only a backend stores that (Backend::stored_format)
//   scales  d (and m) for each run of scale_block columns: as a half, as a float, or as a step, a
//           small integer that a half of each 256 columns multiplies
//
// F32, F16 and BF16 keep their values. Math int8 makes another form of all types, signed bytes with
// a scale for each row, which is not exact. Thread safety: plain values.
#include <cstdint>

#include "engine/core/gguf/tensor_type.hpp"
#include "kernels/quantize/code_block.h"

namespace millrace::engine {

inline constexpr std::uint32_t panel_rows = 16;
inline constexpr std::uint32_t block_columns = Q_CHANNELS;  // of a block of codes; pads K
inline constexpr std::uint32_t step_columns = 256;          // that share the half of their steps

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The numbers are those of the kernels' define CODES.
enum class Codes : std::uint8_t {
  f32 = 0,
  f16 = 1,
  bf16 = 3,
  bits2 = 2,
  bits4 = 4,
  bits5 = 5,
  bits6 = 6,
  bits8 = 8,
  bytes = 9  // of products of math int8 (kernels/matmul/int8_nvidia.cl)
};

struct PanelFormat {
  Codes codes = Codes::f32;
  std::uint8_t offset = 0;        // subtracted from every code or stored level; 0 if affine
  bool affine = false;            // there is an m
  bool levels = false;            // there is a table; it is stored with the offset added
  std::uint8_t scale_bytes = 0;   // of a step, half or float: 1, 2 or 4; 0 without codes
  std::uint8_t scale_block = 32;  // columns that share a d and an m: 32 or 16
  bool floats = false;            // codes are floats of 4 bits

  bool quantized() const { return scale_bytes > 0; }
  bool has_steps() const { return scale_bytes == 1; }
  // Runs of columns, in a block of 32, that share a scale.
  std::uint32_t runs() const { return block_columns / scale_block; }
  // Numbers that a row has for each 32 columns: the d of each run, then the m of each.
  std::uint32_t scales_per_block() const { return quantized() ? (affine ? 2 : 1) * runs() : 0; }
  auto operator<=>(const PanelFormat&) const = default;
};

PanelFormat format_of(TensorType type);

}  // namespace millrace::engine
