#include "engine/core/hub/gathered_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/core/families/portable_math.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/half.hpp"

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

// What is no number stays so, and is refused where the tensor is used.
float decay_of(float logarithm) {
  if (!std::isfinite(logarithm)) return logarithm;
  constexpr double most = 690.0;  // infinite as a float
  return static_cast<float>(-exp_of(std::clamp(double{logarithm}, -most, most)));
}

// Writes values in a type of floats.
void write_values(std::span<const float> values, TensorType type, std::span<std::byte> out) {
  if (type == TensorType::f32) {
    std::ranges::copy(std::as_bytes(values), out.begin());
    return;
  }
  std::byte* to = out.data();
  for (const float value : values) {
    const std::uint16_t bits =
        type == TensorType::f16 ? float_to_half(value) : float_to_bfloat16(value);
    std::memcpy(to, &bits, sizeof bits);
    to += sizeof bits;
  }
}

}  // namespace

GatheredRows::GatheredRows(std::vector<UnitRange> ranges, std::uint64_t units_per_row,
                           ValueChange change)
    : ranges_(std::move(ranges)), units_per_row_(units_per_row), change_(change) {
  std::uint64_t end = 0;
  for (const UnitRange& range : ranges_) ends_.push_back(end += range.count);
  const Tensor& first = ranges_.front().from.tensor;
  unit_bytes_ = change_.to_f32 ? first.shape[0] * sizeof(float) : first.row_bytes();
}

void GatheredRows::read_unit(std::uint64_t unit, std::span<std::byte> out,
                             std::vector<std::byte>& scratch) const {
  const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, unit) - ends_.begin());
  const UnitRange& range = ranges_[at];
  const std::uint64_t begin = ends_[at] - range.count;
  const Tensor& tensor = range.from.tensor;
  const auto bytes = tensor.read(place(range, unit - begin), 1, scratch);
  if (!change_.to_f32 && !range.is_scaled()) {
    std::ranges::copy(bytes, out.begin());
    return;
  }
  std::vector<float> values(tensor.shape[0]);
  // Sources are of types that are known to be readable, and the sizes are the tensor's own.
  static_cast<void>(dequantize(tensor.type, bytes, values));
  for (float& value : values) {
    value = value * range.factors[0] * range.factors[1];
    if (change_.is_decay) value = decay_of(value);
    value += change_.added;
  }
  write_values(values, change_.to_f32 ? TensorType::f32 : tensor.type, out);
}

void GatheredRows::read(std::uint64_t first, std::span<std::byte> out) const {
  std::vector<std::byte> scratch;
  std::uint64_t unit = first * units_per_row_;
  for (std::size_t at = 0; at < out.size(); at += unit_bytes_, ++unit) {
    read_unit(unit, out.subspan(at, unit_bytes_), scratch);
  }
}

void TransposedRows::read(std::uint64_t first, std::span<std::byte> out) const {
  const std::uint64_t rows_each = columns_.tensor.shape[0];
  const std::uint64_t column_bytes = columns_.tensor.row_bytes();
  const std::uint64_t value_bytes = column_bytes / rows_each;
  const std::uint64_t count = out.size() / (columns_each_ * value_bytes);
  std::vector<std::byte> scratch;
  std::span<const std::byte> columns;  // of the matrix that is read
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t matrix = (first + i) / rows_each, row = (first + i) % rows_each;
    if (i == 0 || row == 0) {
      columns = columns_.tensor.read(matrix * stride_, columns_each_, scratch);
    }
    const std::byte* from = columns.data() + row * value_bytes;
    std::byte* to = out.data() + i * columns_each_ * value_bytes;
    for (std::uint64_t c = 0; c < columns_each_; ++c, from += column_bytes, to += value_bytes) {
      std::memcpy(to, from, value_bytes);
    }
  }
}

void OrderedColumns::read(std::uint64_t first, std::span<std::byte> out) const {
  const std::uint64_t row_bytes = from_.tensor.row_bytes();
  const std::uint64_t run_bytes = row_bytes / order_.size();
  std::vector<std::byte> scratch;
  const auto rows = from_.tensor.read(first, out.size() / row_bytes, scratch);
  for (std::uint64_t at = 0; at < out.size(); at += row_bytes) {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      std::memcpy(out.data() + at + i * run_bytes, rows.data() + at + order_[i] * run_bytes,
                  run_bytes);
    }
  }
}

}  // namespace millrace::engine
