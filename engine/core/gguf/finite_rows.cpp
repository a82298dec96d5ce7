#include "engine/core/gguf/finite_rows.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

constexpr std::size_t half_bytes = 2;

// Whether `count` numbers, `stride` bytes apart from `from` on, are finite: the bits of `mask`, the
// exponent, are not all ones.
template <class Bits>
bool all_finite(const std::byte* from, std::uint64_t count, std::size_t stride, Bits mask) {
  unsigned bad = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * stride, sizeof bits);
    bad |= (bits & mask) == mask ? 1u : 0u;
  }
  return bad == 0;
}

bool row_is_finite(const Tensor& tensor, const std::byte* row) {
  constexpr std::uint16_t half_mask = 0x7c00, brain_mask = 0x7f80;
  constexpr std::uint32_t single_mask = 0x7f800000;
  const std::uint64_t columns = tensor.shape[0];
  const TensorTypeTraits& traits = traits_of(tensor.type);
  if (const QuantTraits* const quantized = find_quant_traits(tensor.type)) {
    for (std::uint32_t i = 0; i < quantized->halves; ++i) {
      const std::byte* const first = row + quantized->halves_at + i * half_bytes;
      if (!all_finite(first, columns / traits.block_elements, traits.block_bytes, half_mask)) {
        return false;
      }
    }
    if (quantized->is_finite == nullptr) return true;
    for (std::uint64_t k = 0; k < columns; k += traits.block_elements, row += traits.block_bytes) {
      if (!quantized->is_finite(row)) return false;
    }
    return true;
  }
  if (tensor.type == TensorType::f32) return all_finite(row, columns, 4, single_mask);
  const std::uint16_t mask = tensor.type == TensorType::f16 ? half_mask : brain_mask;
  return all_finite(row, columns, half_bytes, mask);
}

}  // namespace

std::optional<std::uint64_t> find_row_not_finite(const Tensor& tensor, std::uint64_t first,
                                                 std::uint64_t count) {
  // Rows that are made are made faster together.
  constexpr std::uint64_t together = 64;
  std::vector<std::byte> scratch;
  const std::uint64_t end = first + count, row_bytes = tensor.row_bytes();
  for (std::uint64_t row = first; row < end; row += together) {
    const std::uint64_t rows = std::min(together, end - row);
    const std::byte* const bytes = tensor.read(row, rows, scratch).data();
    for (std::uint64_t i = 0; i < rows; ++i) {
      if (!row_is_finite(tensor, bytes + i * row_bytes)) return row + i;
    }
  }
  return std::nullopt;
}

}  // namespace millrace::engine
