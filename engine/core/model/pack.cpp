#include "engine/core/model/pack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/core/model/block.hpp"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

// Values of `Bytes` bytes, one after the other in a row; k-major in the panel.
template <std::size_t Bytes>
void pack_plain(const std::byte* row, std::uint32_t columns, std::uint32_t lane, std::byte* codes) {
  for (std::uint32_t k = 0; k < columns; ++k) {
    std::memcpy(codes + (std::size_t{k} * panel_rows + lane) * Bytes, row + k * Bytes, Bytes);
  }
}

constexpr std::size_t half_bytes = 2;
constexpr std::size_t word_bytes = 4;
constexpr std::uint32_t bits4_words = 4, bits8_words = 8;  // of a row in a block

// Word i of 4-bit codes: columns 8i..8i+3 in the low bits of its bytes, 8i+4..8i+7 in the high
// ones.
void pack_codes(Codes kind, const std::array<std::uint8_t, 32>& codes, std::byte* to) {
  std::array<std::byte, word_bytes> word;
  const std::uint32_t words = kind == Codes::bits4 ? bits4_words : bits8_words;
  for (std::uint32_t i = 0; i < words; ++i, to += panel_rows * word_bytes) {
    for (std::uint32_t z = 0; z < word_bytes; ++z) {
      const std::uint32_t code =
          kind == Codes::bits4 ? codes[8 * i + z] | codes[8 * i + 4 + z] << 4 : codes[4 * i + z];
      word[z] = static_cast<std::byte>(code);
    }
    std::memcpy(to, word.data(), word_bytes);
  }
}

void pack_blocks(const PanelLayout& layout, BlockReader read, const std::byte* row,
                 std::uint32_t lane, std::byte* scales, std::byte* codes) {
  const PanelFormat& format = layout.format;
  const std::uint32_t blocks = layout.columns / block_columns, each = format.scales_per_block();
  const std::size_t block_bytes = layout.code_bytes() / (layout.k() / block_columns);
  WeightBlock block;
  for (std::uint32_t b = 0; b < blocks; ++b) {
    read(row, b, block);
    for (std::uint32_t i = 0; i < each; ++i) {
      const std::size_t at = (std::size_t{b} * each + i) * panel_rows + lane;
      // Little-endian: the low bytes of a half come first.
      std::memcpy(scales + at * format.scale_bytes, &block.scales[i], format.scale_bytes);
    }
    pack_codes(format.codes, block.codes, codes + b * block_bytes + lane * word_bytes);
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

void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  std::byte* const scales = out.data();
  std::byte* const codes = scales + layout.scale_bytes();
  const std::uint64_t first = std::uint64_t{panel} * panel_rows;
  const auto rows =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(panel_rows, tensor.rows() - first));
  const std::uint64_t row_bytes = tensor.row_bytes();
  const BlockReader read = block_reader(tensor.type);
  for (std::uint32_t lane = 0; lane < rows; ++lane) {
    const std::byte* const row = tensor.data.data() + (first + lane) * row_bytes;
    if (read != nullptr) {
      pack_blocks(layout, read, row, lane, scales, codes);
    } else if (layout.format.codes == Codes::f32) {
      pack_plain<4>(row, layout.columns, lane, codes);
    } else {
      pack_plain<2>(row, layout.columns, lane, codes);
    }
  }
}

}  // namespace millrace::engine
