#include "engine/core/model/pack.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::engine {
namespace {

// Values of `Bytes` bytes, one after the other in a row; k-major in the panel.
template <std::size_t Bytes>
void pack_plain(const std::byte* row, std::uint32_t columns, std::uint32_t lane, std::byte* codes) {
  for (std::uint32_t k = 0; k < columns; ++k) {
    std::memcpy(codes + (std::size_t{k} * panel_rows + lane) * Bytes, row + k * Bytes, Bytes);
  }
}

constexpr std::size_t half_bytes = 2;

// Q8_0: half d, 32 codes a block.
void pack_q8_0(const std::byte* row, std::uint32_t blocks, std::uint32_t lane, std::byte* scales,
               std::byte* codes) {
  for (std::uint32_t b = 0; b < blocks; ++b, row += 34) {
    std::memcpy(scales + (std::size_t{b} * panel_rows + lane) * half_bytes, row, half_bytes);
    std::byte* const to = codes + std::size_t{b} * 32 * panel_rows + lane;
    for (std::uint32_t k = 0; k < 32; ++k) to[std::size_t{k} * panel_rows] = row[half_bytes + k];
  }
}

// Q4_0 and Q4_1: one or two halves, then 16 bytes whose low bits are codes 0..15 of the block and
// whose high bits are codes 16..31. Packed, byte j holds codes 2j (low) and 2j+1 (high).
void pack_q4(const std::byte* row, std::uint32_t blocks, std::uint32_t lane, std::uint32_t halves,
             std::byte* scales, std::byte* codes) {
  const std::byte low{0x0f}, high{0xf0};
  for (std::uint32_t b = 0; b < blocks; ++b) {
    for (std::uint32_t h = 0; h < halves; ++h, row += half_bytes) {
      const std::size_t at = (std::size_t{b} * halves + h) * panel_rows + lane;
      std::memcpy(scales + at * half_bytes, row, half_bytes);
    }
    std::byte* const to = codes + std::size_t{b} * 16 * panel_rows + lane;
    for (std::uint32_t j = 0; j < 8; ++j) {
      const std::byte first = row[2 * j], second = row[2 * j + 1];
      to[std::size_t{j} * panel_rows] = (first & low) | ((second & low) << 4);
      to[std::size_t{j + 8} * panel_rows] = (first >> 4) | (second & high);
    }
    row += 16;
  }
}

// Whether `count` numbers, the first at `from` and each `stride` bytes further, are finite: the
// exponent, `mask`, is not all ones.
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
  const std::uint64_t columns = tensor.shape[0], blocks = columns / 32;
  const std::size_t block_bytes = traits_of(tensor.type).block_bytes;
  switch (tensor.type) {
    case TensorType::f32:
      return all_finite(row, columns, 4, single_mask);
    case TensorType::f16:
      return all_finite(row, columns, half_bytes, half_mask);
    case TensorType::bf16:
      return all_finite(row, columns, half_bytes, brain_mask);
    case TensorType::q4_1:
      return all_finite(row, blocks, block_bytes, half_mask) &&
             all_finite(row + half_bytes, blocks, block_bytes, half_mask);
    case TensorType::q8_0:
    case TensorType::q4_0:
      return all_finite(row, blocks, block_bytes, half_mask);
  }
  return false;
}

}  // namespace

std::optional<std::uint64_t> find_row_not_finite(const Tensor& tensor, std::uint64_t first,
                                                 std::uint64_t count) {
  const std::uint64_t row_bytes = tensor.row_bytes();
  for (std::uint64_t row = first; row < first + count; ++row) {
    if (!row_is_finite(tensor, tensor.data.data() + row * row_bytes)) return row;
  }
  return std::nullopt;
}

std::uint64_t PanelLayout::scale_bytes() const {
  const std::uint64_t blocks = k() / 32;
  switch (type) {
    case TensorType::q8_0:
    case TensorType::q4_0:
      return (blocks * panel_rows * half_bytes + 63) / 64 * 64;
    case TensorType::q4_1:
      return blocks * panel_rows * half_bytes * 2;
    default:
      return 0;
  }
}

std::uint64_t PanelLayout::code_bytes() const {
  const std::uint64_t values = std::uint64_t{k()} * panel_rows;
  switch (type) {
    case TensorType::f32:
      return values * 4;
    case TensorType::f16:
    case TensorType::bf16:
      return values * 2;
    case TensorType::q8_0:
      return values;
    case TensorType::q4_0:
    case TensorType::q4_1:
      return values / 2;
  }
  return 0;
}

void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  std::byte* const scales = out.data();
  std::byte* const codes = scales + layout.scale_bytes();
  const std::uint64_t first = std::uint64_t{panel} * panel_rows;
  const auto rows =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(panel_rows, tensor.rows() - first));
  const std::uint64_t row_bytes = tensor.row_bytes();
  const std::uint32_t blocks = layout.columns / 32;
  for (std::uint32_t lane = 0; lane < rows; ++lane) {
    const std::byte* const row = tensor.data.data() + (first + lane) * row_bytes;
    switch (layout.type) {
      case TensorType::f32:
        pack_plain<4>(row, layout.columns, lane, codes);
        break;
      case TensorType::f16:
      case TensorType::bf16:
        pack_plain<2>(row, layout.columns, lane, codes);
        break;
      case TensorType::q8_0:
        pack_q8_0(row, blocks, lane, scales, codes);
        break;
      case TensorType::q4_0:
        pack_q4(row, blocks, lane, 1, scales, codes);
        break;
      case TensorType::q4_1:
        pack_q4(row, blocks, lane, 2, scales, codes);
        break;
    }
  }
}

}  // namespace millrace::engine
