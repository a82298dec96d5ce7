#include "engine/core/model/backend/pack.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/load.hpp"
#include "engine/core/gguf/quant_block.hpp"
#include "engine/core/model/backend/pack_int8.hpp"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t half_bytes = 2;
constexpr std::size_t word_bytes = 4;

// Rows as the file has them, and the panel's row at which the first of them stands.
struct FileRows {
  const std::byte* bytes = nullptr;
  std::uint64_t row_bytes = 0;
  std::uint32_t rows = 0, first_lane = 0;

  const std::byte* row(std::uint32_t i) const { return bytes + i * row_bytes; }
};

// Copies a value of `Bytes` bytes.
template <std::size_t Bytes>
void copy(std::byte* to, const std::byte* from) {
  std::memcpy(to, from, Bytes);
}

// Packs rows of values of `Bytes` bytes each, some columns at a time, so that what the rows write
// together stays in the nearest cache.
template <std::size_t Bytes>
void pack_plain(const FileRows& from, std::uint32_t columns, std::byte* codes) {
  for (std::uint32_t begin = 0; begin < columns; begin += block_columns) {
    const std::uint32_t end = std::min(begin + block_columns, columns);
    for (std::uint32_t i = 0; i < from.rows; ++i) {
      const std::byte* const row = from.row(i);
      for (std::uint32_t k = begin; k < end; ++k) {
        const std::size_t at = std::size_t{k} * panel_rows + from.first_lane + i;
        copy<Bytes>(codes + at * Bytes, row + k * Bytes);
      }
    }
  }
}

// Where row `row` of a block of codes stands: the columns whose codes come to each four places, as
// two pairs of neighbours, and the bytes of the row's words from the block's beginning.
struct BlockPlaces {
  BlockPlaces() = default;
  BlockPlaces(const PanelLayout& layout, std::uint32_t row) : moved(layout.lanes) {
    for (std::uint32_t k = 0; k < block_columns; k += 2) {
      const std::uint32_t place = layout.place_of(k);
      pairs[place / 4][place % 4 / 2] = static_cast<std::uint8_t>(k);
    }
    for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = layout.word_at(i, row) * word_bytes;
  }
  bool moved = false;
  std::array<std::array<std::uint8_t, 2>, block_columns / 4> pairs{};
  std::array<std::size_t, 8> words{};
};

// The codes of a block, four places in a word.
using Fours = std::array<std::uint32_t, block_columns / 4>;

Fours fours_of(const std::uint8_t* codes, const BlockPlaces& places) {
  Fours out;
  if (!places.moved) {
    std::memcpy(out.data(), codes, sizeof out);
    return out;
  }
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    std::uint16_t first, second;
    std::memcpy(&first, codes + places.pairs[i][0], sizeof first);
    std::memcpy(&second, codes + places.pairs[i][1], sizeof second);
    out[i] = first | std::uint32_t{second} << 16;
  }
  return out;
}

// Packs rows of halves in the order of lanes.
void pack_half_rows(const PanelLayout& layout, const FileRows& from, std::byte* codes) {
  constexpr std::uint32_t together = 4;  // places
  constexpr std::size_t pair_bytes = 2 * half_bytes,
                        block_bytes = block_columns * panel_rows * half_bytes;
  std::array<std::array<std::size_t, block_columns / 2>, panel_rows> places;  // of each row
  for (std::uint32_t i = 0; i < from.rows; ++i) {
    const std::uint32_t lane = from.first_lane + i;
    for (std::uint32_t pair = 0; pair < block_columns / 2; ++pair) {
      const std::uint32_t place = layout.place_of(2 * pair);
      const std::uint32_t owner = lane % 8 * 4 + place / 8, operand = place / together % 2;
      const std::size_t at =
          ((operand * 32 + owner) * 2 + lane / 8) * std::size_t{together} + place % together;
      places[i][pair] = at * half_bytes;
    }
  }
  for (std::uint32_t begin = 0; begin < layout.columns; begin += block_columns) {
    std::byte* const block = codes + begin / block_columns * block_bytes;
    const std::uint32_t count = std::min(block_columns, layout.columns - begin);
    for (std::uint32_t i = 0; i < from.rows; ++i) {
      const std::byte* const halves = from.row(i) + begin * half_bytes;
      for (std::uint32_t pair = 0; pair < count / 2; ++pair) {
        copy<pair_bytes>(block + places[i][pair], halves + pair * pair_bytes);
      }
      if (count % 2 != 0) {
        copy<half_bytes>(block + places[i][count / 2], halves + (count - 1) * half_bytes);
      }
    }
  }
}

// Packs rows of halves, or of BF16 as halves, as the unit reads them from local memory.
void pack_unit_rows(const FileRows& from, bool bf16, std::uint32_t columns, std::byte* codes) {
  constexpr std::uint32_t vector = 8;  // columns
  constexpr std::size_t vector_bytes = vector * half_bytes;
  for (std::uint32_t begin = 0; begin < columns; begin += vector) {
    const std::size_t count = std::min(vector, columns - begin);
    for (std::uint32_t i = 0; i < from.rows; ++i) {
      const std::size_t lane = from.first_lane + i, unit = begin / unit_columns;
      const std::size_t v = begin % unit_columns / vector ^ lane % vector;
      std::array<std::uint16_t, vector> values;
      std::memcpy(values.data(), from.row(i) + begin * half_bytes, count * half_bytes);
      for (std::size_t k = 0; bf16 && k < count; ++k) {
        values[k] = float_to_half(std::bit_cast<float>(std::uint32_t{values[k]} << 16));
      }
      std::memcpy(codes + ((unit * panel_rows + lane) * vector + v) * vector_bytes, values.data(),
                  count * half_bytes);
    }
  }
}

// Packs `Bits` bits of the codes of a block, from bit `From` on. The first bits of a word's four
// bytes are four places, the next bits the next four. The words stand at `words_at` of `to`.
template <std::uint32_t Bits, std::uint32_t From = 0>
void pack_bits(const Fours& codes, const std::size_t* words_at, std::byte* to) {
  constexpr std::uint32_t parts = 8 / Bits, words = Bits;           // 32 columns of so many bits
  constexpr std::uint32_t mask = ((1u << Bits) - 1) * 0x01010101u;  // of four codes
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    for (std::uint32_t part = 0; part < parts; ++part) {
      word |= (codes[i * parts + part] >> From & mask) << (part * Bits);
    }
    std::memcpy(to + words_at[i], &word, word_bytes);
  }
}

// Packs the codes of a block. Codes of 5 and 6 bits are four low bits, then the high ones.
void pack_codes(Codes form, const std::uint8_t* columns, const BlockPlaces& places, std::byte* to) {
  const Fours codes = fours_of(columns, places);
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

// Packs the blocks of a quantized panel.
class PanelPacker {
 public:
  PanelPacker(const PanelLayout& layout, const QuantTraits& traits, float factor, std::byte* panel)
      : format_(layout.format),
        traits_(traits),
        type_(traits_of(traits.type)),
        factor_(factor),
        each_(layout.format.scales_per_block()),
        code_bytes_(layout.code_bytes() / (layout.k() / block_columns)),
        scales_(panel + layout.level_bytes()),
        halves_(panel + layout.halves_at()),
        codes_(panel + layout.codes_at()) {
    for (std::uint32_t lane = 0; lane < panel_rows; ++lane) places_[lane] = {layout, lane};
  }

  // Converts the file's blocks of some rows, whose columns are a multiple of 32, to the panel's
  // blocks of 32; block by block, so that what the rows write together stays in the nearest cache.
  void pack(FileRows from, std::uint32_t columns) {
    for (std::uint32_t k = 0; k < columns; k += type_.block_elements) {
      const std::uint32_t count = std::min(type_.block_elements, columns - k);
      for (std::uint32_t i = 0; i < from.rows; ++i) {
        pack_block(from.row(i), k, count, from.first_lane + i);
      }
      from.bytes += type_.block_bytes;
    }
  }

 private:
  // Packs `count` columns of a file's block.
  void pack_block(const std::byte* from, std::uint32_t k, std::uint32_t count, std::uint32_t lane) {
    QuantBlock block;
    traits_.fill(from, block);
    if (traits_.scales == ScaleForm::steps) put_halves(k / step_columns, from, lane);
    if (factor_ != 1.0f) multiply(block, type_.block_elements / traits_.group_elements);
    for (std::uint32_t at = 0; at < count; at += block_columns) {
      const std::uint32_t to = (k + at) / block_columns, group = at / traits_.group_elements;
      if (traits_.scales == ScaleForm::halves) {
        put_scales<half_bytes>(to, 0, traits_.halves, from + traits_.halves_at, lane);
      } else if (traits_.scales == ScaleForm::steps) {
        put_groups<1>(to, &block.steps[group], &block.minimum_steps[group], lane);
      } else if (format_.floats) {
        // Levels are twice the floats, and a half is eight times the scale of floats.
        const std::uint16_t half = float_to_half(block.scales[group] * 16);
        put_groups<half_bytes>(to, &half, nullptr, lane);
      } else {
        put_groups<sizeof(float)>(to, &block.scales[group], &block.minimums[group], lane);
      }
      pack_codes(format_.codes, &block.codes[at], places_[lane],
                 codes_ + std::size_t{to} * code_bytes_);
    }
  }
  void multiply(QuantBlock& block, std::uint32_t groups) const {
    for (std::uint32_t g = 0; g < groups; ++g) {
      block.scales[g] *= factor_;
      if (format_.affine) block.minimums[g] *= factor_;
    }
  }
  // Writes the numbers of a block's runs.
  template <std::size_t Bytes>
  void put_groups(std::uint32_t block, const void* scales, const void* minimums,
                  std::uint32_t lane) {
    put_scales<Bytes>(block, 0, format_.runs(), scales, lane);
    if (format_.affine) put_scales<Bytes>(block, format_.runs(), format_.runs(), minimums, lane);
  }
  // Writes the halves that the steps of 256 columns multiply; the second with the other sign,
  // because minimums are subtracted.
  void put_halves(std::uint32_t at, const std::byte* from, std::uint32_t lane) {
    for (std::uint32_t i = 0; i < traits_.halves; ++i) {
      auto half = load<std::uint16_t>(from + traits_.halves_at + i * half_bytes);
      if (i == 1) half ^= 0x8000;
      const std::size_t to = (std::size_t{at} * traits_.halves + i) * panel_rows + lane;
      std::memcpy(halves_ + to * half_bytes, &half, half_bytes);
    }
  }
  // Writes `count` of the block's numbers, of format_.scale_bytes each, from number `first` on.
  template <std::size_t Bytes>
  void put_scales(std::uint32_t block, std::uint32_t first, std::uint32_t count, const void* from,
                  std::uint32_t lane) {
    const std::byte* number = static_cast<const std::byte*>(from);
    for (std::uint32_t i = first; i < first + count; ++i, number += Bytes) {
      copy<Bytes>(scales_ + ((std::size_t{block} * each_ + i) * panel_rows + lane) * Bytes, number);
    }
  }

  const PanelFormat format_;
  const QuantTraits& traits_;
  const TensorTypeTraits& type_;
  const float factor_;
  const std::uint32_t each_;
  const std::size_t code_bytes_;
  std::array<BlockPlaces, panel_rows> places_;
  std::byte* const scales_;
  std::byte* const halves_;
  std::byte* const codes_;
};

// Packs rows of a tensor into a panel that is zero, from its row `first_lane` on.
void pack_rows(const PanelLayout& layout, const PanelRows& from, std::uint32_t first_lane,
               std::span<std::byte> out) {
  if (from.rows == 0) return;
  if (layout.bytes()) return pack_int8_rows(from, layout.columns, first_lane, out);
  const Tensor& tensor = from.tensor;
  std::byte* const codes = out.data() + layout.codes_at();
  std::vector<std::byte> scratch;
  const FileRows rows{tensor.read(from.first_row, from.rows, scratch).data(), tensor.row_bytes(),
                      from.rows, first_lane};
  if (const QuantTraits* const quantized = find_quant_traits(tensor.type)) {
    if (layout.format.levels) {
      pack_levels(*quantized->levels, layout.format.offset, out.first(layout.level_bytes()));
    }
    PanelPacker(layout, *quantized, from.factor, out.data()).pack(rows, layout.columns);
  } else if (layout.format.codes == Codes::f32) {
    pack_plain<sizeof(float)>(rows, layout.columns, codes);
  } else if (layout.unit_rows()) {
    pack_unit_rows(rows, tensor.type == TensorType::bf16, layout.columns, codes);
  } else if (layout.lanes) {
    pack_half_rows(layout, rows, codes);
  } else {
    pack_plain<half_bytes>(rows, layout.columns, codes);
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
