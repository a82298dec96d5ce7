#pragma once
// The forms of activations, and how far apart their rows are. Thread safety: plain values.
#include <cstdint>

#include "engine/core/device/handles.hpp"
#include "engine/core/model/panel.hpp"
#include "kernels/quantize/code_block.h"

namespace millrace::engine {

// Floats from one row to the next in the input of a matrix product with so many columns. The
// padding keeps rows from the same cache sets.
constexpr std::uint32_t input_stride(std::uint32_t columns) {
  return round_up(columns, 32) + 16;
}
// What the codes of channels are (kernels/quantize/code_block.h), which the family decides.
enum class CodeForm : std::uint8_t { integers, halves, bytes };
// Words of a row in the same input as codes. Of integers it is an odd number of cache lines, for
// the same reason; halves are whole lines of 64 channels, and bytes whole groups with a scale,
// which stand in panels of H_ROWS rows.
constexpr std::uint32_t code_stride(std::uint32_t columns, CodeForm form = CodeForm::integers) {
  constexpr std::uint32_t line_words = 16, line_halves = 64;
  if (form == CodeForm::halves) return round_up(columns, line_halves) / 2;
  if (form == CodeForm::bytes) return INT8_ROW_WORDS(INT8_GROUPS(columns));
  return round_up(round_up(columns, block_columns) / block_columns * Q_WORDS, 2 * line_words) +
         line_words;
}
// Number of rows that must be readable after the last row of a product's input.
inline constexpr std::uint32_t input_slack_rows = 16;
// Rows of codes that memory for so many rows has: those of halves and bytes fill whole panels.
constexpr std::uint64_t code_rows(std::uint64_t rows, CodeForm form) {
  if (form != CodeForm::integers) return (rows + H_ROWS - 1) / H_ROWS * H_ROWS;
  return rows + input_slack_rows;
}

// The forms that an activation has, or that are wanted. Products of math int8 read bytes
// (CodeForm::bytes); codes are what Target::code_form says.
struct Forms {
  bool rows = false, codes = false, bytes = false;
  bool any() const { return rows || codes || bytes; }
  Forms operator|(const Forms& other) const {
    return {rows || other.rows, codes || other.codes, bytes || other.bytes};
  }
  Forms& operator|=(const Forms& other) { return *this = *this | other; }
};
struct Activation {
  Buffer rows{}, codes{}, bytes{};  // empty if nothing reads that form
};

enum class Accumulate : std::uint8_t { replace, add };

inline const Buffer no_buffer{};

}  // namespace millrace::engine
