// Reads panels back on the host, number by number as kernels/matmul/layout.cl draws them, and
// compares them with the file's values: every type, full and partial panels, any bytes for scales.
#include "engine/core/model/backend/pack.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/gguf/half.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::engine {
namespace {

using testing::append_random_block;
using testing::append_value;
using testing::must;
using testing::Random;

template <class T>
T at(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

class PanelReader {
 public:
  PanelReader(const PanelLayout& layout, const std::byte* panel)
      : format_(layout.format),
        lanes_(layout.lanes),
        panel_(panel),
        scales_(panel + layout.level_bytes()),
        halves_(panel + layout.halves_at()),
        codes_(panel + layout.codes_at()) {}

  float weight(std::uint32_t row, std::uint32_t k) const {
    const std::uint32_t place = place_of(k);
    const std::size_t operand = k / 32 * 2 + place % 8 / 4, lane = row % 8 * 4 + place / 8;
    const std::size_t plain = lanes_ && format_.codes != Codes::f32
                                  ? ((operand * 32 + lane) * 2 + row / 8) * 4 + place % 4
                                  : std::size_t{k} * 16 + row;
    switch (format_.codes) {
      case Codes::f32:
        return at<float>(panel_, plain);
      case Codes::f16: {
        // With lanes, vectors of eight columns, exchanged by the row within 64 columns.
        const std::size_t vector = (k / 64 * 16 + row) * 8 + (k % 64 / 8 ^ row % 8);
        return half_to_float(at<std::uint16_t>(panel_, lanes_ ? vector * 8 + k % 8 : plain));
      }
      case Codes::bf16:
        return bfloat16_to_float(at<std::uint16_t>(panel_, plain));
      default:
        return quantized(row, k);
    }
  }

 private:
  // Column 16j + 2t + 8h + z of a block is at place 8t + 4j + 2h + z, with lanes.
  std::uint32_t place_of(std::uint32_t k) const {
    const std::uint32_t j = k % 32 / 16, h = k % 16 / 8, t = k % 8 / 2, z = k % 2;
    return lanes_ ? 8 * t + 4 * j + 2 * h + z : k % 32;
  }
  // The number, in a block, of a row's word.
  std::uint32_t word_at(std::uint32_t word, std::uint32_t row) const {
    const auto bits = static_cast<std::uint32_t>(format_.codes);
    const std::uint32_t g = row % 8, i = row / 8;
    if (lanes_ && bits == 8) return ((4 * g + word / 2) * 2 + word % 2) * 2 + i;
    if (lanes_ && bits != 2 && word < 4) return (4 * g + word) * 2 + i;
    return word * 16 + row;
  }
  float quantized(std::uint32_t row, std::uint32_t k) const {
    const int stored = code_of(row, k);
    // Each 16 bytes of the line hold the same levels.
    const int number =
        format_.levels ? std::to_integer<int>(panel_[row % 4 * 16 + std::size_t(stored)]) : stored;
    const auto value = static_cast<float>(number - format_.offset);
    const std::uint32_t run = k % 32 / format_.scale_block, runs = 32 / format_.scale_block;
    if (format_.affine) return std::fma(scale(row, k, run), value, scale(row, k, runs + run));
    return scale(row, k, run) * value;
  }
  int code_of(std::uint32_t row, std::uint32_t k) const {
    const auto bits = static_cast<std::uint32_t>(format_.codes);
    const std::uint32_t c = place_of(k), group = c / 4;
    // Byte c % 4 of a word of the block.
    const auto byte = [&](std::uint32_t word) {
      return std::to_integer<int>(codes_[(k / 32 * bits * 16 + word_at(word, row)) * 4 + c % 4]);
    };
    if (bits == 8) return byte(group);
    if (bits == 2) return byte(group / 4) >> group % 4 * 2 & 3;
    const int low = group % 2 == 0 ? byte(group / 2) & 15 : byte(group / 2) >> 4;
    if (bits == 5) return low | (byte(4) >> group & 1) << 4;
    if (bits == 6) return low | (byte(4 + group / 4) >> group % 4 * 2 & 3) << 4;
    return low;
  }
  float scale(std::uint32_t row, std::uint32_t k, std::uint32_t which) const {
    const std::size_t index = (k / 32 * format_.scales_per_block() + which) * 16 + row;
    if (format_.scale_bytes == 4) return at<float>(scales_, index);
    if (format_.has_steps()) {
      const std::size_t each = format_.affine ? 2 : 1, minimum = which / (32 / format_.scale_block);
      const std::size_t half = (k / 256 * each + minimum) * 16 + row;
      return half_to_float(at<std::uint16_t>(halves_, half)) *
             static_cast<float>(at<std::int8_t>(scales_, index));
    }
    return half_to_float(at<std::uint16_t>(scales_, index));
  }

  PanelFormat format_;
  bool lanes_;
  const std::byte* panel_;
  const std::byte* scales_;
  const std::byte* halves_;
  const std::byte* codes_;
};

// `half_of` gives the bits of each half.
template <class HalfOf>
std::vector<std::byte> random_rows(TensorType type, std::uint64_t elements, Random& random,
                                   HalfOf half_of) {
  const auto& traits = traits_of(type);
  std::vector<std::byte> out;
  for (std::uint64_t i = 0; i < elements / traits.block_elements; ++i) {
    if (type == TensorType::f32) {
      append_value(out, random.uniform(-1, 1));
    } else if (find_quant_traits(type) == nullptr) {
      append_value(out, static_cast<std::uint16_t>(half_of(0) & 0xbfff));
    } else {
      append_random_block(out, type, random, half_of);
      // Scales that are not halves may have any bytes, too.
      const std::size_t others = type == TensorType::mxfp4 ? 1 : type == TensorType::nvfp4 ? 4 : 0;
      const std::size_t block = out.size() - traits.block_bytes;
      for (std::size_t at = block; at < block + others; ++at) {
        out[at] = static_cast<std::byte>(random.below(256));
      }
    }
  }
  return out;
}

Tensor tensor_of(TensorType type, std::uint64_t columns, std::uint64_t rows,
                 std::span<const std::byte> data) {
  Tensor tensor;
  tensor.name = "random";
  tensor.type = type;
  tensor.rank = 2;
  tensor.shape = {columns, rows, 1, 1};
  tensor.data = data;
  return tensor;
}

void expect_panels(const Tensor& tensor, bool lanes) {
  const auto columns = static_cast<std::uint32_t>(tensor.shape[0]);
  const PanelLayout layout{format_of(tensor.type), columns, lanes};
  std::vector<float> want(tensor.elements());
  must(dequantize_rows(tensor, 0, tensor.rows(), want));
  for (std::uint32_t p = 0; p * 16 < tensor.rows(); ++p) {
    std::vector<std::byte> panel(layout.panel_bytes(), std::byte{0xa5});
    pack_panel(layout, tensor, p, panel);
    const PanelReader reader(layout, panel.data());
    for (std::uint32_t row = 0; row < 16; ++row) {
      for (std::uint32_t k = 0; k < layout.k(); ++k) {
        const bool inside = k < columns && p * 16 + row < tensor.rows();
        const float value = inside ? want[(p * 16 + row) * std::size_t{columns} + k] : 0.0f;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(reader.weight(row, k) + 0.0f),
                  std::bit_cast<std::uint32_t>(value + 0.0f))  // -0 counts as 0
            << "panel " << p << ", row " << row << ", column " << k;
      }
    }
  }
}

TEST(Pack, PanelsHoldWhatTheFileDefines) {
  for (const TensorTypeTraits& type : tensor_types()) {
    SCOPED_TRACE(type.name);
    Random random(static_cast<std::uint64_t>(type.type) + 11);
    // Returns any half whose top exponent bit is clear, and which is therefore finite.
    const auto half = [&](std::uint32_t) {
      return static_cast<std::uint16_t>(random.below(0x10000) & 0xbfff);
    };
    const std::uint64_t columns = type.block_elements == 1 ? 37 : 3 * type.block_elements;
    for (const std::uint64_t rows : {1u, 16u, 35u}) {
      const auto data = random_rows(type.type, columns * rows, random, half);
      for (const bool lanes : {false, true}) {
        ASSERT_NO_FATAL_FAILURE(expect_panels(tensor_of(type.type, columns, rows, data), lanes))
            << (lanes ? "in the order of lanes" : "by rows");
      }
    }
  }
}

// Whatever bytes a file has, packing stays inside the panel, and exactly the rows with a scale that
// is not finite are refused.
TEST(Pack, AnyBytesArePackedOrRefused) {
  int refused = 0, packed = 0;
  for (const TensorTypeTraits& type : tensor_types()) {
    const auto* const quantized = find_quant_traits(type.type);
    if (quantized == nullptr) continue;
    SCOPED_TRACE(type.name);
    Random random(static_cast<std::uint64_t>(type.type) + 12);
    const std::uint64_t columns = type.block_elements, rows = 3;
    for (int i = 0; i < 200; ++i) {
      bool finite = true;
      const auto half = [&](std::uint32_t) {
        const auto bits = static_cast<std::uint16_t>(random.below(0x10000));
        finite = finite && (bits & 0x7c00) != 0x7c00;
        return bits;
      };
      const auto data = random_rows(type.type, columns * rows, random, half);
      if (type.type == TensorType::mxfp4) {
        // From 253 on, the largest level times the scale exceeds every finite number.
        for (std::size_t at = 0; at < data.size(); at += type.block_bytes) {
          finite = finite && std::to_integer<int>(data[at]) <= 252;
        }
      }
      const Tensor tensor = tensor_of(type.type, columns, rows, data);
      ASSERT_EQ(find_row_not_finite(tensor, 0, rows).has_value(), !finite);
      ++(finite ? packed : refused);
      const PanelLayout layout{format_of(type.type), static_cast<std::uint32_t>(columns)};
      std::vector<std::byte> panel(layout.panel_bytes());
      pack_panel(layout, tensor, 0, panel);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(packed, 1000);
}

}  // namespace
}  // namespace millrace::engine
