#pragma once
// The format in which kernels read a weight matrix: panels of 16 rows, the same for all file types
// (kernels/matmul/layout.cl draws it). Every quantized file type maps to it exactly:
//
//   codes   unsigned, 4 or 8 bits; a weight is d * (code - offset), or d * code + m if affine
//   scales  d (and m) for each run of scale_block columns, as half or as float: float if the file
//           type's scale is itself a product, as in super-blocks
//
// F32, F16 and BF16 keep their values. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t panel_rows = 16;
inline constexpr std::uint32_t block_columns = 32;  // of a block of codes; pads K

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// The numbers are those of the kernels' define CODES.
enum class Codes : std::uint8_t { f32 = 0, f16 = 1, bf16 = 2, bits4 = 4, bits8 = 8 };

struct PanelFormat {
  Codes codes = Codes::f32;
  std::uint8_t offset = 0;        // subtracted from every code: 8 or 128; 0 if affine
  bool affine = false;            // there is an m
  std::uint8_t scale_bytes = 0;   // 2 or 4; 0 without codes
  std::uint8_t scale_block = 32;  // columns that share a d: 32, or 16 (never affine)

  bool quantized() const { return codes == Codes::bits4 || codes == Codes::bits8; }
  // Numbers that a row has for each 32 columns: d, d and m, or two d.
  std::uint32_t scales_per_block() const {
    if (!quantized()) return 0;
    return affine ? 2 : block_columns / scale_block;
  }
  auto operator<=>(const PanelFormat&) const = default;
};

PanelFormat format_of(TensorType type);

// `columns` is the true number; the kernels' K is that number rounded up to 32.
struct PanelLayout {
  PanelFormat format;
  std::uint32_t columns = 0;

  std::uint32_t k() const { return round_up(columns, block_columns); }
  std::uint64_t scale_bytes() const;  // of a panel, rounded up to 64 so that codes are aligned
  std::uint64_t code_bytes() const;
  std::uint64_t panel_bytes() const { return scale_bytes() + code_bytes(); }
  // The defines for kernels that read such panels.
  std::vector<std::string> defines() const;
};

}  // namespace millrace::engine
