#include "engine/core/hub/gathered_rows.hpp"

#include <algorithm>
#include <cstring>

#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {
namespace {

// The unit of a source that unit i of a range is.
std::uint64_t place(const UnitRange& range, std::uint64_t i) {
  if (range.head_rows > 0) {
    const std::uint64_t head = i / range.head_rows * range.head_rows, within = i % range.head_rows;
    i = head + within % 2 * (range.head_rows / 2) + within / 2;
  }
  return range.first + i * range.step;
}

}  // namespace

GatheredRows::GatheredRows(std::vector<UnitRange> ranges, std::uint64_t units_per_row, bool to_f32,
                           float added)
    : ranges_(std::move(ranges)), units_per_row_(units_per_row), to_f32_(to_f32), added_(added) {
  std::uint64_t end = 0;
  for (const UnitRange& range : ranges_) ends_.push_back(end += range.count);
  const Tensor& first = ranges_.front().from.tensor;
  unit_bytes_ = to_f32_ ? first.shape[0] * sizeof(float) : first.row_bytes();
}

void GatheredRows::read_unit(std::uint64_t unit, std::span<std::byte> out,
                             std::vector<std::byte>& scratch) const {
  const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, unit) - ends_.begin());
  const UnitRange& range = ranges_[at];
  const std::uint64_t begin = ends_[at] - range.count;
  const Tensor& tensor = range.from.tensor;
  const auto bytes = tensor.read(place(range, unit - begin), 1, scratch);
  if (!to_f32_) {
    std::ranges::copy(bytes, out.begin());
    return;
  }
  std::vector<float> values(tensor.shape[0]);
  // Sources are of types that are known to be readable, and the sizes are the tensor's own.
  static_cast<void>(dequantize(tensor.type, bytes, values));
  for (float& value : values) value += added_;
  std::ranges::copy(std::as_bytes(std::span(values)), out.begin());
}

void GatheredRows::read(std::uint64_t first, std::span<std::byte> out) const {
  std::vector<std::byte> scratch;
  std::uint64_t unit = first * units_per_row_;
  for (std::size_t at = 0; at < out.size(); at += unit_bytes_, ++unit) {
    read_unit(unit, out.subspan(at, unit_bytes_), scratch);
  }
}

void TransposedRows::read(std::uint64_t first, std::span<std::byte> out) const {
  const std::uint64_t rows_each = columns_.shape[0];
  const std::uint64_t column_bytes = columns_.row_bytes();
  const std::uint64_t value_bytes = column_bytes / rows_each;
  const std::uint64_t count = out.size() / (columns_each_ * value_bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t matrix = (first + i) / rows_each, row = (first + i) % rows_each;
    const std::byte* from =
        columns_.data.data() + matrix * columns_each_ * column_bytes + row * value_bytes;
    std::byte* to = out.data() + i * columns_each_ * value_bytes;
    for (std::uint64_t c = 0; c < columns_each_; ++c, from += column_bytes, to += value_bytes) {
      std::memcpy(to, from, value_bytes);
    }
  }
}

}  // namespace millrace::engine
