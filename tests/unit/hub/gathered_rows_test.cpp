#include "engine/core/hub/gathered_rows.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace millrace::engine {
namespace {

// Rows of two values: row r holds 10 r and 10 r + 1.
Source matrix_of(std::vector<float>& values, std::uint64_t rows) {
  values.clear();
  for (std::uint64_t r = 0; r < rows; ++r) {
    values.push_back(static_cast<float>(10 * r));
    values.push_back(static_cast<float>(10 * r + 1));
  }
  Source out;
  out.tensor.rank = 2;
  out.tensor.shape = {2, rows, 1, 1};
  out.tensor.data = std::as_bytes(std::span(values));
  return out;
}

// The first value of rows, divided by ten.
std::vector<int> rows_read(const RowSource& rows, std::uint64_t first, std::uint64_t count) {
  std::vector<float> values(2 * count);
  rows.read(first, std::as_writable_bytes(std::span(values)));
  std::vector<int> out;
  for (std::uint64_t i = 0; i < count; ++i) out.push_back(static_cast<int>(values[2 * i]) / 10);
  return out;
}

TEST(GatheredRows, ReadsRangesInOrder) {
  std::vector<float> values;
  const Source from = matrix_of(values, 12);
  const GatheredRows rows({{.from = from, .first = 8, .count = 2},
                           {.from = from, .first = 1, .count = 3, .step = 2},
                           {.from = from, .first = 0, .count = 1}},
                          1, {});
  EXPECT_EQ(rows_read(rows, 0, 6), (std::vector<int>{8, 9, 1, 3, 5, 0}));
  EXPECT_EQ(rows_read(rows, 1, 3), (std::vector<int>{9, 1, 3}));
  EXPECT_EQ(rows_read(rows, 5, 1), (std::vector<int>{0}));
}

TEST(GatheredRows, ReadsHalvesOfHeadsAsPairs) {
  std::vector<float> values;
  const Source from = matrix_of(values, 12);
  const GatheredRows rows({{.from = from, .count = 12, .head_rows = 6}}, 1, {});
  EXPECT_EQ(rows_read(rows, 0, 12), (std::vector<int>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
}

TEST(GatheredRows, ConvertsAndAdds) {
  const std::vector<std::uint16_t> brains{0x3f80, 0xc000, 0x3e80};  // 1, -2, 0.25
  Source from;
  from.tensor.type = TensorType::bf16;
  from.tensor.rank = 1;
  from.tensor.shape = {3, 1, 1, 1};
  from.tensor.data = std::as_bytes(std::span(brains));
  const GatheredRows rows({{.from = from, .count = 1}}, 1, {.to_f32 = true, .added = 1.0f});
  std::vector<float> values(3);
  rows.read(0, std::as_writable_bytes(std::span(values)));
  EXPECT_EQ(values, (std::vector<float>{2.0f, -1.0f, 1.25f}));
}

TEST(GatheredRows, MultipliesOnceForEachFactor) {
  std::vector<float> values;
  const Source from = matrix_of(values, 3);
  const GatheredRows rows({{.from = from, .count = 1, .factors = {2.0f, 0.5f}},
                           {.from = from, .first = 1, .count = 2, .factors = {3.0f, -1.0f}}},
                          1, {});
  std::vector<float> read(6);
  rows.read(0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{0, 1, -30, -33, -60, -63}));
}

TEST(GatheredRows, RoundsProductsToTheirType) {
  const std::vector<std::uint16_t> brains{0x3f81};  // 1 + 2^-7
  Source from;
  from.tensor.type = TensorType::bf16;
  from.tensor.rank = 1;
  from.tensor.shape = {1, 1, 1, 1};
  from.tensor.data = std::as_bytes(std::span(brains));
  const GatheredRows rows({{.from = from, .count = 1, .factors = {1.5f, 1.0f}}}, 1, {});
  std::vector<std::uint16_t> read(1);
  rows.read(0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read[0], 0x3fc2);  // 1.51171875 is half way: to even
}

TEST(GatheredRows, MakesDecaysOfLogarithms) {
  const float endless = std::numeric_limits<float>::infinity();
  const std::vector<float> logarithms{0.0f, -1000.0f, 1000.0f, endless};
  Source from;
  from.tensor.rank = 1;
  from.tensor.shape = {4, 1, 1, 1};
  from.tensor.data = std::as_bytes(std::span(logarithms));
  const GatheredRows rows({{.from = from, .count = 1}}, 1, {.to_f32 = true, .is_decay = true});
  std::vector<float> read(4);
  rows.read(0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{-1.0f, -0.0f, -endless, endless}));
}

TEST(OrderedColumns, MovesRuns) {
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  Source from;
  from.tensor.rank = 2;
  from.tensor.shape = {6, 2, 1, 1};
  from.tensor.data = std::as_bytes(std::span(values));
  const OrderedColumns rows(from, {2, 0, 1});
  std::vector<float> read(6);
  rows.read(1, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{14, 15, 10, 11, 12, 13}));
}

TEST(TransposedRows, LeavesOutRowsBetweenMatrices) {
  std::vector<float> values;
  const Source from = matrix_of(values, 6);  // two matrices of two rows, a row after each
  const TransposedRows rows(from, 2, 3);
  std::vector<float> read(8);
  rows.read(0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{0, 10, 1, 11, 30, 40, 31, 41}));
}

TEST(TransposedRows, ReadsValuesOfColumns) {
  // Two matrices of three columns with four rows; a value names its matrix, column and row.
  std::vector<float> values;
  for (int matrix = 0; matrix < 2; ++matrix) {
    for (int column = 0; column < 3; ++column) {
      for (int row = 0; row < 4; ++row) {
        values.push_back(static_cast<float>(100 * matrix + 10 * column + row));
      }
    }
  }
  Tensor columns;
  columns.rank = 3;
  columns.shape = {4, 3, 2, 1};
  columns.data = std::as_bytes(std::span(values));
  const TransposedRows rows({.tensor = columns}, 3, 3);
  std::vector<float> read(6);
  rows.read(3, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, (std::vector<float>{3, 13, 23, 100, 110, 120}));
}

}  // namespace
}  // namespace millrace::engine
