#include "engine/core/hub/packed_integers.hpp"

#include <algorithm>
#include <cstring>

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/load.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint64_t block = 32;  // columns of a block of Q4_0 and Q8_0

class PackedRows final : public RowSource {
 public:
  PackedRows(PackedMatrix matrix, TensorType type) : matrix_(std::move(matrix)), type_(type) {}

  void read(std::uint64_t first, std::span<std::byte> out) const override {
    const TensorTypeTraits& traits = traits_of(type_);
    const std::uint64_t bytes = matrix_.columns / traits.block_elements * traits.block_bytes;
    const std::uint64_t count = out.size() / bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto row = out.subspan(i * bytes, bytes);
      type_ == TensorType::f16 ? write_halves(first + i, row) : write_blocks(first + i, row);
    }
  }

 private:
  void write_halves(std::uint64_t row, std::span<std::byte> out) const {
    for (std::uint64_t c = 0; c < matrix_.columns; ++c) {
      const float value = static_cast<float>(matrix_.value(row, c)) * matrix_.scale(row, c);
      const std::uint16_t half = float_to_half(value);
      std::memcpy(out.data() + c * sizeof half, &half, sizeof half);
    }
  }

  // A block is its scale as a half, then its codes: bytes, or nibbles of which the low ones are the
  // first 16.
  void write_blocks(std::uint64_t row, std::span<std::byte> out) const {
    std::byte* to = out.data();
    for (std::uint64_t c = 0; c < matrix_.columns; c += block) {
      const std::uint16_t scale = float_to_half(matrix_.scale(row, c));
      std::memcpy(to, &scale, sizeof scale);
      to += sizeof scale;
      if (type_ == TensorType::q8_0) {
        for (std::uint64_t i = 0; i < block; ++i) {
          *to++ = static_cast<std::byte>(static_cast<std::int8_t>(matrix_.value(row, c + i)));
        }
        continue;
      }
      for (std::uint64_t i = 0; i < block / 2; ++i) {
        const auto low = static_cast<unsigned>(matrix_.value(row, c + i) + 8);
        const auto high = static_cast<unsigned>(matrix_.value(row, c + i + block / 2) + 8);
        *to++ = static_cast<std::byte>(low | high << 4);
      }
    }
  }

  PackedMatrix matrix_;
  TensorType type_;
};

}  // namespace

std::uint32_t PackedCodes::at(std::uint64_t row, std::uint64_t column) const {
  const std::uint64_t word =
      row / rows_per_word * row_stride + column / columns_per_word * column_stride;
  const std::uint64_t within = rows_per_word > 1 ? row % rows_per_word : column % columns_per_word;
  const auto bits_of_word = load<std::uint32_t>(words.data() + word * sizeof(std::uint32_t));
  return bits_of_word >> (order[within] * bits) & ((1u << bits) - 1);
}

float PackedMatrix::scale(std::uint64_t row, std::uint64_t column) const {
  return scales[row * scale_row_stride + groups[column] * scale_group_stride];
}

std::int32_t PackedMatrix::value(std::uint64_t row, std::uint64_t column) const {
  const auto zero = zeros ? zeros->at(row, groups[column]) + zero_added : 1u << (codes.bits - 1);
  return static_cast<std::int32_t>(codes.at(row, column)) - static_cast<std::int32_t>(zero);
}

TensorType exact_type(const PackedMatrix& matrix) {
  const bool blocks =
      matrix.in_order && matrix.group_columns % block == 0 && matrix.columns % block == 0;
  const auto is_half = [](float x) { return half_to_float(float_to_half(x)) == x; };
  if (!blocks || !std::ranges::all_of(matrix.scales, is_half)) return TensorType::f16;
  if (matrix.zeros) {
    const std::uint32_t middle = 1u << (matrix.codes.bits - 1);
    const std::uint64_t groups = (matrix.columns + matrix.group_columns - 1) / matrix.group_columns;
    for (std::uint64_t row = 0; row < matrix.rows; ++row) {
      for (std::uint64_t group = 0; group < groups; ++group) {
        if (matrix.zeros->at(row, group) + matrix.zero_added != middle) return TensorType::f16;
      }
    }
  }
  return matrix.codes.bits == 4 ? TensorType::q4_0 : TensorType::q8_0;
}

std::shared_ptr<const RowSource> packed_rows(PackedMatrix matrix, TensorType type) {
  return std::make_shared<PackedRows>(std::move(matrix), type);
}

}  // namespace millrace::engine
