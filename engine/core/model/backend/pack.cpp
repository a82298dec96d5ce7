#include "engine/core/model/backend/pack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/core/gguf/load.hpp"
#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t half_bytes = 2;
constexpr std::size_t word_bytes = 4;

// Packs row `lane` of a panel of values of `Bytes` bytes each.
template <std::size_t Bytes>
void pack_plain(const std::byte* row, std::uint32_t columns, std::uint32_t lane, std::byte* codes) {
  for (std::uint32_t k = 0; k < columns; ++k) {
    const std::size_t at = std::size_t{k} * panel_rows + lane;
    std::memcpy(codes + at * Bytes, row + k * Bytes, Bytes);
  }
}

// Where row `row` of a block of codes stands: the places of its columns, and the bytes of its words
// from the block's beginning.
struct BlockPlaces {
  BlockPlaces(const PanelLayout& layout, std::uint32_t row) : moved(layout.lanes) {
    for (std::uint32_t k = 0; k < block_columns; ++k) columns[k] = layout.place_of(k);
    for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = layout.word_at(i, row) * word_bytes;
  }
  bool moved;
  std::array<std::uint32_t, block_columns> columns;
  std::array<std::size_t, 8> words;
};

// Packs a row of halves in the order of lanes.
void pack_half_row(const PanelLayout& layout, const std::byte* row, std::uint32_t lane,
                   std::byte* codes) {
  constexpr std::uint32_t together = 4;  // places
  for (std::uint32_t k = 0; k < layout.columns; ++k) {
    const std::uint32_t place = layout.place_of(k % block_columns);
    const std::uint32_t owner = lane % 8 * 4 + place / 8, operand = place / together % 2;
    const std::size_t at =
        ((operand * 32 + owner) * 2 + lane / 8) * std::size_t{together} + place % together;
    const std::size_t block = k / block_columns * std::size_t{block_columns * panel_rows};
    std::memcpy(codes + (block + at) * half_bytes, row + k * half_bytes, half_bytes);
  }
}

// Packs `Bits` bits of the codes of a block, from bit `From` on. The first bits of a word's four
// bytes are four places, the next bits the next four. The words stand at `words_at` of `to`.
template <std::uint32_t Bits, std::uint32_t From = 0>
void pack_bits(const std::uint8_t* codes, const std::size_t* words_at, std::byte* to) {
  constexpr std::uint32_t parts = 8 / Bits, words = Bits;  // 32 columns of so many bits
  constexpr std::uint32_t mask = (1u << Bits) - 1;
  for (std::uint32_t i = 0; i < words; ++i, codes += parts * word_bytes) {
    std::array<std::byte, word_bytes> word{};
    for (std::uint32_t part = 0; part < parts; ++part) {
      for (std::uint32_t z = 0; z < word_bytes; ++z) {
        const std::uint32_t bits = codes[part * word_bytes + z] >> From & mask;
        word[z] |= static_cast<std::byte>(bits << (part * Bits));
      }
    }
    std::memcpy(to + words_at[i], word.data(), word_bytes);
  }
}

// Packs the codes of a block. Codes of 5 and 6 bits are four low bits, then the high ones.
void pack_codes(Codes form, const std::uint8_t* columns, const BlockPlaces& places, std::byte* to) {
  std::array<std::uint8_t, block_columns> moved;
  const std::uint8_t* codes = columns;
  if (places.moved) {
    for (std::uint32_t k = 0; k < block_columns; ++k) moved[places.columns[k]] = columns[k];
    codes = moved.data();
  }
  const std::size_t* const words = places.words.data();
  const std::size_t* const high = words + 4;
  switch (form) {
    case Codes::bits2:
      return pack_bits<2>(codes, words, to);
    case Codes::bits5:
      pack_bits<4>(codes, words, to);
      return pack_bits<1, 4>(codes, high, to);
    case Codes::bits6:
      pack_bits<4>(codes, words, to);
      return pack_bits<2, 4>(codes, high, to);
    case Codes::bits8:
      return pack_bits<8>(codes, words, to);
    default:
      return pack_bits<4>(codes, words, to);
  }
}

// Writes the table once for each 16 bytes of a vector.
void pack_levels(const Levels& levels, std::uint8_t offset, std::span<std::byte> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<std::byte>(levels[i % levels.size()] + offset);
  }
}

// Packs one row of a panel.
class RowPacker {
 public:
  RowPacker(const PanelLayout& layout, float factor, std::uint32_t lane, std::byte* panel)
      : format_(layout.format),
        factor_(factor),
        each_(layout.format.scales_per_block()),
        code_bytes_(layout.code_bytes() / (layout.k() / block_columns)),
        lane_(lane),
        places_(layout, lane),
        scales_(panel + layout.level_bytes()),
        halves_(panel + layout.halves_at()),
        codes_(panel + layout.codes_at()) {}

  // Converts the file's blocks, whose columns are a multiple of 32, to the panel's blocks of 32.
  void pack(const QuantTraits& traits, const std::byte* row, std::uint32_t columns) {
    const TensorTypeTraits& type = traits_of(traits.type);
    QuantBlock block;
    for (std::uint32_t k = 0; k < columns; k += block_columns) {
      const std::uint32_t within = k % type.block_elements;
      const std::byte* const from = row + std::size_t{k / type.block_elements} * type.block_bytes;
      if (within == 0) {
        unpack_block(traits, from, block);
        if (traits.scales == ScaleForm::steps) put_halves(k / step_columns, traits, from);
        if (factor_ != 1.0f) multiply(block, type.block_elements / traits.group_elements);
      }
      const std::uint32_t to = k / block_columns, group = within / traits.group_elements;
      if (traits.scales == ScaleForm::halves) {
        put_scales(to, 0, traits.halves, from + traits.halves_at);
      } else if (traits.scales == ScaleForm::steps) {
        put_groups(to, &block.steps[group], &block.minimum_steps[group]);
      } else {
        put_groups(to, &block.scales[group], &block.minimums[group]);
      }
      pack_codes(format_.codes, &block.codes[within], places_,
                 codes_ + std::size_t{to} * code_bytes_);
    }
  }

 private:
  void multiply(QuantBlock& block, std::uint32_t groups) const {
    for (std::uint32_t g = 0; g < groups; ++g) {
      block.scales[g] *= factor_;
      if (format_.affine) block.minimums[g] *= factor_;
    }
  }
  // Writes the numbers of a block's runs.
  void put_groups(std::uint32_t block, const void* scales, const void* minimums) {
    put_scales(block, 0, format_.runs(), scales);
    if (format_.affine) put_scales(block, format_.runs(), format_.runs(), minimums);
  }
  // Writes the halves that the steps of 256 columns multiply; the second with the other sign,
  // because minimums are subtracted.
  void put_halves(std::uint32_t at, const QuantTraits& traits, const std::byte* from) {
    for (std::uint32_t i = 0; i < traits.halves; ++i) {
      auto half = load<std::uint16_t>(from + traits.halves_at + i * half_bytes);
      if (i == 1) half ^= 0x8000;
      const std::size_t to = (std::size_t{at} * traits.halves + i) * panel_rows + lane_;
      std::memcpy(halves_ + to * half_bytes, &half, half_bytes);
    }
  }
  // Writes `count` of the block's numbers, from number `first` on.
  void put_scales(std::uint32_t block, std::uint32_t first, std::uint32_t count, const void* from) {
    const std::byte* number = static_cast<const std::byte*>(from);
    for (std::uint32_t i = first; i < first + count; ++i, number += format_.scale_bytes) {
      const std::size_t at = (std::size_t{block} * each_ + i) * panel_rows + lane_;
      std::memcpy(scales_ + at * format_.scale_bytes, number, format_.scale_bytes);
    }
  }

  const PanelFormat format_;
  const float factor_;
  const std::uint32_t each_;
  const std::size_t code_bytes_;
  const std::uint32_t lane_;
  const BlockPlaces places_;
  std::byte* const scales_;
  std::byte* const halves_;
  std::byte* const codes_;
};

// Packs rows of a tensor into a panel that is zero, from its row `lane` on.
void pack_rows(const PanelLayout& layout, const PanelRows& from, std::uint32_t first_lane,
               std::span<std::byte> out) {
  if (from.rows == 0) return;
  const Tensor& tensor = from.tensor;
  std::byte* const codes = out.data() + layout.codes_at();
  const std::uint64_t row_bytes = tensor.row_bytes();
  std::vector<std::byte> scratch;
  const std::byte* const all = tensor.read(from.first_row, from.rows, scratch).data();
  const QuantTraits* const quantized = find_quant_traits(tensor.type);
  if (layout.format.levels) {
    pack_levels(*quantized->levels, layout.format.offset, out.first(layout.level_bytes()));
  }
  for (std::uint32_t i = 0; i < from.rows; ++i) {
    const std::byte* const row = all + i * row_bytes;
    const std::uint32_t lane = first_lane + i;
    if (quantized != nullptr) {
      RowPacker(layout, from.factor, lane, out.data()).pack(*quantized, row, layout.columns);
    } else if (layout.format.codes == Codes::f32) {
      pack_plain<4>(row, layout.columns, lane, codes);
    } else if (layout.lanes) {
      pack_half_row(layout, row, lane, codes);
    } else {
      pack_plain<2>(row, layout.columns, lane, codes);
    }
  }
}

}  // namespace

void pack_panel(const PanelLayout& layout, const Tensor& tensor, std::uint32_t panel,
                std::span<std::byte> out, float factor) {
  std::ranges::fill(out, std::byte{0});
  const std::uint64_t first = std::uint64_t{panel} * panel_rows;
  const auto rows =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(panel_rows, tensor.rows() - first));
  pack_rows(layout, {tensor, first, rows, factor}, 0, out);
}

void pack_pair(const PanelLayout& layout, const PanelRows& upper, const PanelRows& lower,
               std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  pack_rows(layout, upper, 0, out);
  pack_rows(layout, lower, panel_rows / 2, out);
}

}  // namespace millrace::engine
