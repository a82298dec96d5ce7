#pragma once
// Tensors whose rows are other tensors' rows in another order: an expert's matrices one after the
// other, every second row of an interleaved matrix, rows of queries and keys that rotate in pairs.
// Rows are fetched when they are read, so nothing of a matrix is held.
//
// A unit is what is moved: a row of a matrix, or one value of a vector, whose row is many units.
// Thread safety: immutable.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

// A matrix of a folder. `owner` makes its rows, unless they lie in a file.
struct Source {
  Tensor tensor;
  std::shared_ptr<const RowSource> owner{};
};

// Some units of a source. Unit i is the source's `first` + i * `step`. With head_rows > 0, those of
// each head, which are two halves, are read as pairs: first, middle, second, one after the middle.
struct UnitRange {
  Source from;
  std::uint64_t first = 0, count = 0, step = 1;
  std::uint64_t head_rows = 0;
};

class GatheredRows final : public RowSource {
 public:
  // With `to_f32`, values are converted, exactly, and then `added` is added.
  GatheredRows(std::vector<UnitRange> ranges, std::uint64_t units_per_row, bool to_f32,
               float added);
  void read(std::uint64_t first, std::span<std::byte> out) const override;

 private:
  void read_unit(std::uint64_t unit, std::span<std::byte> out,
                 std::vector<std::byte>& scratch) const;

  std::vector<UnitRange> ranges_;
  std::vector<std::uint64_t> ends_;  // of the ranges, in units
  std::uint64_t units_per_row_, unit_bytes_;
  bool to_f32_;
  float added_;
};

// A matrix of which a file holds the columns: `columns` is [matrices, columns, rows] there. Row r
// of the result is value r of every column. F32, F16 and BF16.
class TransposedRows final : public RowSource {
 public:
  TransposedRows(Tensor columns, std::uint64_t columns_each) noexcept
      : columns_(columns), columns_each_(columns_each) {}
  void read(std::uint64_t first, std::span<std::byte> out) const override;

 private:
  Tensor columns_;
  std::uint64_t columns_each_;  // of a matrix
};

}  // namespace millrace::engine
