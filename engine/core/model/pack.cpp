#include "engine/core/model/pack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

// Packs a row of values of `Bytes` bytes each; the panel is k-major.
template <std::size_t Bytes>
void pack_plain(const std::byte* row, std::uint32_t columns, std::uint32_t lane, std::byte* codes) {
  for (std::uint32_t k = 0; k < columns; ++k) {
    std::memcpy(codes + (std::size_t{k} * panel_rows + lane) * Bytes, row + k * Bytes, Bytes);
  }
}

constexpr std::size_t half_bytes = 2;
constexpr std::size_t word_bytes = 4;
constexpr std::uint32_t bits4_words = 4, bits8_words = 8;  // words of a row in a block

// Packs the codes of a block. Word i of 4-bit codes holds columns 8i..8i+3 in the low bits of its
// bytes and columns 8i+4..8i+7 in the high bits.
void pack_codes(Codes kind, const std::uint8_t* codes, std::byte* to) {
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

// Packs one row of a panel.
class RowPacker {
 public:
  RowPacker(const PanelLayout& layout, std::uint32_t lane, std::byte* scales, std::byte* codes)
      : format_(layout.format),
        each_(layout.format.scales_per_block()),
        code_bytes_(layout.code_bytes() / (layout.k() / block_columns)),
        lane_(lane),
        scales_(scales),
        codes_(codes) {}

  // Converts the file's blocks, whose columns are a multiple of 32, to the panel's blocks of 32.
  void pack(const QuantTraits& traits, const std::byte* row, std::uint32_t columns) {
    const TensorTypeTraits& type = traits_of(traits.type);
    QuantBlock block;
    for (std::uint32_t k = 0; k < columns; k += block_columns) {
      const std::uint32_t within = k % type.block_elements;
      const std::byte* const from = row + std::size_t{k / type.block_elements} * type.block_bytes;
      if (within == 0) traits.unpack(from, block);
      const std::uint32_t to = k / block_columns, group = within / traits.group_elements;
      if (traits.half_scales) {
        put_scales(to, from + traits.halves_at);
      } else if (traits.affine) {
        const float both[2] = {block.scales[group], block.minimums[group]};
        put_scales(to, both);
      } else {
        put_scales(to, &block.scales[group]);
      }
      pack_codes(format_.codes, &block.codes[within],
                 codes_ + std::size_t{to} * code_bytes_ + lane_ * word_bytes);
    }
  }

 private:
  void put_scales(std::uint32_t block, const void* from) {
    for (std::uint32_t i = 0; i < each_; ++i) {
      const std::size_t at = (std::size_t{block} * each_ + i) * panel_rows + lane_;
      std::memcpy(scales_ + at * format_.scale_bytes,
                  static_cast<const std::byte*>(from) + i * format_.scale_bytes,
                  format_.scale_bytes);
    }
  }

  const PanelFormat format_;
  const std::uint32_t each_;
  const std::size_t code_bytes_;
  const std::uint32_t lane_;
  std::byte* const scales_;
  std::byte* const codes_;
};

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
    for (std::uint32_t i = 0; i < quantized->halves(); ++i) {
      const std::byte* const first = row + quantized->halves_at + i * half_bytes;
      if (!all_finite(first, columns / traits.block_elements, traits.block_bytes, half_mask)) {
        return false;
      }
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
  const QuantTraits* const quantized = find_quant_traits(tensor.type);
  for (std::uint32_t lane = 0; lane < rows; ++lane) {
    const std::byte* const row = tensor.data.data() + (first + lane) * row_bytes;
    if (quantized != nullptr) {
      RowPacker(layout, lane, scales, codes).pack(*quantized, row, layout.columns);
    } else if (layout.format.codes == Codes::f32) {
      pack_plain<4>(row, layout.columns, lane, codes);
    } else {
      pack_plain<2>(row, layout.columns, lane, codes);
    }
  }
}

}  // namespace millrace::engine
