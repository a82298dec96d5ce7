#pragma once
// Matrices of integers of 4 or 8 bits that are packed into words of 32 bits, with a scale and a
// zero point for each group of columns: x = (code - zero) * scale. Methods differ in where a code
// stands. Thread safety: immutable.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

// Where the code of (row, column) stands: in the word at (row / rows_per_word) * row_stride +
// (column / columns_per_word) * column_stride, one of the two being 1 code a word.
struct PackedCodes {
  std::span<const std::byte> words{};
  std::uint32_t bits = 4;
  std::uint64_t rows_per_word = 1, columns_per_word = 1, row_stride = 0, column_stride = 0;
  std::array<std::uint8_t, 8> order{0, 1, 2, 3, 4, 5, 6, 7};  // of the codes in a word

  std::uint32_t at(std::uint64_t row, std::uint64_t column) const;
};

struct PackedMatrix {
  std::uint64_t rows = 0, columns = 0;
  PackedCodes codes{};
  std::vector<float> scales{};  // [row][group] or [group][row], by the strides
  std::uint64_t scale_row_stride = 0, scale_group_stride = 0;
  std::optional<PackedCodes> zeros{};   // of (row, group); none: half the range of the codes
  std::uint32_t zero_added = 0;         // to each zero point
  std::vector<std::uint32_t> groups{};  // of each column; as long as there are columns
  bool in_order = false;                // groups are equal runs of columns, of `group_columns`
  std::uint64_t group_columns = 0;

  float scale(std::uint64_t row, std::uint64_t column) const;
  std::int32_t value(std::uint64_t row, std::uint64_t column) const;  // code - zero
};

// The type that keeps the matrix exactly, or F16.
TensorType exact_type(const PackedMatrix& matrix);

// Rows in that type.
std::shared_ptr<const RowSource> packed_rows(PackedMatrix matrix, TensorType type);

}  // namespace millrace::engine
