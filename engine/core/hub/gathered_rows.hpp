#pragma once
// Tensors whose rows are other tensors' rows in another order: an expert's matrices one after the
// other, every second row of an interleaved matrix, rows of queries and keys that rotate in pairs.
// Rows are fetched when they are read, so nothing of a matrix is held.
//
// A unit is what is moved: a row of a matrix, or one value of a vector, whose row is many units.
// Values may be changed on the way.
// Thread safety: immutable.
#include <array>
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
  std::array<float, 2> factors{1.0f, 1.0f};  // of its values, one after the other

  bool is_scaled() const { return factors != std::array{1.0f, 1.0f}; }
};

// What happens to values after their range's factors. Without `to_f32`, they are rounded to their
// type again, which is F32, F16 or BF16 if there is a factor.
struct ValueChange {
  bool to_f32 = false;
  bool is_decay = false;  // -exp(x), for which values become F32
  float added = 0.0f;     // likewise
};

class GatheredRows final : public RowSource {
 public:
  GatheredRows(std::vector<UnitRange> ranges, std::uint64_t units_per_row, ValueChange change);
  void read(std::uint64_t first, std::span<std::byte> out) const override;

 private:
  void read_unit(std::uint64_t unit, std::span<std::byte> out,
                 std::vector<std::byte>& scratch) const;

  std::vector<UnitRange> ranges_;
  std::vector<std::uint64_t> ends_;  // of the ranges, in units
  std::uint64_t units_per_row_, unit_bytes_;
  ValueChange change_;
};

// Matrices of which a source holds the columns: those of matrix i are its rows from i * `stride`
// on, `columns_each` of them. Row r of the result is value r of every column. F32, F16 and BF16.
class TransposedRows final : public RowSource {
 public:
  TransposedRows(Source columns, std::uint64_t columns_each, std::uint64_t stride)
      : columns_(std::move(columns)), columns_each_(columns_each), stride_(stride) {}
  void read(std::uint64_t first, std::span<std::byte> out) const override;

 private:
  Source columns_;
  std::uint64_t columns_each_, stride_;
};

// A matrix with its columns in another order, in runs of one length: run i of a row is the source's
// run order[i]. A run must be whole blocks of the source's type.
class OrderedColumns final : public RowSource {
 public:
  OrderedColumns(Source from, std::vector<std::uint32_t> order)
      : from_(std::move(from)), order_(std::move(order)) {}
  void read(std::uint64_t first, std::span<std::byte> out) const override;

 private:
  Source from_;
  std::vector<std::uint32_t> order_;
};

}  // namespace millrace::engine
