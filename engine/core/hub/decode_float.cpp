// Matrices of small floats: fp8 with scales, and MXFP4 as gpt-oss has it.
#include <array>
#include <cstring>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/half.hpp"
#include "engine/core/hub/decode.hpp"

namespace millrace::engine {
namespace {

// E4M3 without infinities: 4 bits of exponent, 3 of fraction, the bias is 7; 0x7f is no number.
float e4m3_to_float(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t exponent = code >> 3 & 15u, fraction = code & 7u;
  if (exponent == 15 && fraction == 7) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-9f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | fraction << 20);
}

std::array<float, 256> e4m3_values() {
  std::array<float, 256> out{};
  for (std::size_t code = 0; code < out.size(); ++code) {
    out[code] = e4m3_to_float(static_cast<std::uint8_t>(code));
  }
  return out;
}

std::uint64_t tiles_of(std::uint64_t size, std::uint64_t tile) {
  return (size + tile - 1) / tile;
}

// Of each of some matrices, a scale stands for a tile of rows and columns.
struct Tiles {
  std::uint64_t matrix_rows = 1, columns = 1;  // of a matrix
  std::uint64_t rows = 1, tile_columns = 1;    // of a tile

  std::uint64_t across() const { return tiles_of(columns, tile_columns); }
  std::uint64_t each() const { return tiles_of(matrix_rows, rows) * across(); }
  // The first scale of a row of all matrices.
  std::uint64_t at(std::uint64_t row) const {
    return row / matrix_rows * each() + row % matrix_rows / rows * across();
  }
};

// Rows of codes times scales, rounded to BF16.
class Fp8Rows final : public RowSource {
 public:
  Fp8Rows(std::span<const std::byte> codes, std::vector<float> scales, Tiles tiles)
      : codes_(codes), scales_(std::move(scales)), tiles_(tiles) {}

  void read(std::uint64_t first, std::span<std::byte> out) const override {
    const std::uint64_t columns = tiles_.columns, tile_columns = tiles_.tile_columns;
    const std::uint64_t rows = out.size() / (columns * sizeof(std::uint16_t));
    std::byte* to = out.data();
    for (std::uint64_t row = first; row < first + rows; ++row) {
      const float* const scales = scales_.data() + tiles_.at(row);
      for (std::uint64_t c = 0; c < columns; ++c, to += sizeof(std::uint16_t)) {
        const auto code = std::to_integer<std::size_t>(codes_[row * columns + c]);
        const std::uint16_t value = float_to_bfloat16(values_[code] * scales[c / tile_columns]);
        std::memcpy(to, &value, sizeof value);
      }
    }
  }

 private:
  std::span<const std::byte> codes_;
  std::vector<float> scales_;
  Tiles tiles_;
  std::array<float, 256> values_ = e4m3_values();
};

// A hub's block is 16 bytes, each with two neighbours, the first in the low nibble, and its scale
// is elsewhere. Ours is the scale, then 16 bytes whose low nibbles are the first half.
class Mxfp4Rows final : public RowSource {
 public:
  static constexpr std::uint64_t codes_bytes = 16, block_bytes = 17;
  // Blocks of a row follow each other, as rows do.
  Mxfp4Rows(std::span<const std::byte> blocks, std::span<const std::byte> scales,
            std::uint64_t blocks_each) noexcept
      : blocks_(blocks), scales_(scales), blocks_each_(blocks_each) {}

  void read(std::uint64_t first, std::span<std::byte> out) const override {
    std::uint64_t block = first * blocks_each_;
    for (std::size_t at = 0; at < out.size(); at += block_bytes, ++block) {
      out[at] = scales_[block];
      const std::byte* const from = blocks_.data() + block * codes_bytes;
      for (std::uint64_t i = 0; i < codes_bytes; ++i) {
        out[at + 1 + i] = nibble(from, i) | nibble(from, i + codes_bytes) << 4;
      }
    }
  }

 private:
  static std::byte nibble(const std::byte* from, std::uint64_t i) {
    return from[i / 2] >> (i % 2 * 4) & std::byte{15};
  }

  std::span<const std::byte> blocks_, scales_;
  std::uint64_t blocks_each_;
};

std::unexpected<Error> do_not_fit(const std::string& name, const std::string& source) {
  return fail(Code::folder_malformed,
              source + ": the scales of '" + printable(name) + "' do not fit its shape",
              "the folder's files belong to different models: download it again");
}

}  // namespace

Result<Source> decode_fp8(const HubTensor& codes, const HubTensor& scales, const std::string& name,
                          const std::string& source) {
  const std::size_t rank = codes.shape.size();
  if (codes.type != HubType::f8_e4m3 || (rank != 2 && rank != 3)) {
    return fail(Code::unsupported_quantization,
                source + ": the tensor '" + printable(name) + "' is " +
                    std::string(hub_type_name(codes.type)) + " of " + std::to_string(rank) +
                    " dimensions; of scaled types, F8_E4M3 of two or three is supported",
                "use a folder that is not quantized, or a GGUF file");
  }
  MILLRACE_ASSIGN(std::vector<float> values, read_scales(scales, name, source));
  const std::uint64_t matrices = rank == 3 ? codes.shape[0] : 1;
  const std::uint64_t rows = codes.shape[rank - 2], columns = codes.shape[rank - 1];
  if (codes.elements() == 0) return do_not_fit(name, source);
  // One scale for all, or for each matrix one, one for each row, or one for each tile of 128 x 128.
  if (values.size() == 1) values.resize(matrices, values[0]);
  constexpr std::uint64_t tile = 128;
  Tiles tiles{.matrix_rows = rows, .columns = columns, .rows = tile, .tile_columns = tile};
  if (values.size() == matrices) {
    tiles.rows = rows;
    tiles.tile_columns = columns;
  } else if (scales.shape.size() + 1 >= rank && scales.shape[rank - 2] == rows &&
             values.size() == matrices * rows) {
    tiles.rows = 1;
    tiles.tile_columns = columns;
  }
  if (values.size() != matrices * tiles.each()) return do_not_fit(name, source);
  auto made = std::make_shared<Fp8Rows>(codes.data, std::move(values), tiles);
  return made_source(std::move(made), TensorType::bf16, columns, rows, rank == 3 ? matrices : 0);
}

Result<Source> decode_mxfp4(const HubTensor& blocks, const HubTensor& scales,
                            const std::string& name, const std::string& source) {
  const bool fits = blocks.type == HubType::u8 && blocks.shape.size() == 4 &&
                    blocks.shape[3] == Mxfp4Rows::codes_bytes && scales.shape.size() == 3 &&
                    (scales.type == HubType::u8 || scales.type == HubType::f8_e8m0) &&
                    blocks.elements() == scales.elements() * Mxfp4Rows::codes_bytes &&
                    blocks.shape[2] == scales.shape[2] && blocks.elements() > 0;
  if (!fits) return do_not_fit(name, source);
  auto made = std::make_shared<Mxfp4Rows>(blocks.data, scales.data, blocks.shape[2]);
  return made_source(std::move(made), TensorType::mxfp4, blocks.shape[2] * 32, blocks.shape[1],
                     blocks.shape[0]);
}

}  // namespace millrace::engine
