// Compares every quantized type without a grid with the formula of its format in float64. The test
// writes blocks from codes and scales, bit by bit as the format places them. This is the opposite
// direction from the product's code, and another method, so that neither can hide the other's
// mistake. Types with grids are compared with the reference's results alone (dequantize_test.cpp).
#include "engine/core/gguf/quant_block.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/half.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::TensorType;

// The content of a block, before it is bytes.
struct Meaning {
  std::vector<int> codes;             // as in the file: unsigned, or signed for Q8_0
  std::vector<int> scales, minimums;  // of each group, in super-blocks
  std::uint16_t d = 0x3c00, m = 0;    // halves
};

class BlockWriter {
 public:
  explicit BlockWriter(std::size_t size) : bytes_(size) {}
  void half(std::size_t at, std::uint16_t value) { std::memcpy(&bytes_[at], &value, 2); }
  // Sets `count` bits of `value`, from its bit `from` on, at bit `bit` of byte `at`.
  void bits(std::size_t at, int bit, int value, int from, int count) {
    const int part = (value >> from) & ((1 << count) - 1);
    bytes_[at] |= static_cast<std::byte>(part << bit);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Writes runs of 2 * half codes: low nibbles are the first half of a run.
void write_nibbles(BlockWriter& to, std::size_t at, const Meaning& block, std::size_t half = 16) {
  for (std::size_t e = 0; e < block.codes.size(); ++e) {
    to.bits(at + e / (2 * half) * half + e % half, e / half % 2 == 0 ? 0 : 4, block.codes[e], 0, 4);
  }
}

void write_fifth_bits(BlockWriter& to, std::size_t at, const Meaning& block) {
  for (std::size_t e = 0; e < 32; ++e) {
    to.bits(at + e / 8, static_cast<int>(e % 8), block.codes[e], 4, 1);
  }
}

// Writes eight pairs of six bits into twelve bytes.
void write_k_scales(BlockWriter& to, const Meaning& block) {
  for (std::size_t g = 0; g < 8; ++g) {
    const int s = block.scales[g], n = block.minimums[g];
    if (g < 4) {
      to.bits(4 + g, 0, s, 0, 6);
      to.bits(8 + g, 0, n, 0, 6);
    } else {
      to.bits(8 + g, 0, s, 0, 4);  // bytes 12 to 15 of the block
      to.bits(8 + g, 4, n, 0, 4);
      to.bits(g, 6, s, 4, 2);
      to.bits(4 + g, 6, n, 4, 2);
    }
  }
}

// Writes the 4-bit codes of a super-block: 64 elements share 32 bytes.
void write_k_nibbles(BlockWriter& to, std::size_t at, const Meaning& block) {
  for (std::size_t e = 0; e < 256; ++e) {
    to.bits(at + e / 64 * 32 + e % 32, e % 64 < 32 ? 0 : 4, block.codes[e], 0, 4);
  }
}

void write_q6_k(BlockWriter& to, const Meaning& block) {
  for (std::size_t e = 0; e < 256; ++e) {
    const std::size_t half = e / 128, run = e % 128 / 32, i = e % 32;
    to.bits(half * 64 + run % 2 * 32 + i, run < 2 ? 0 : 4, block.codes[e], 0, 4);
    to.bits(128 + half * 32 + i, static_cast<int>(2 * run), block.codes[e], 4, 2);
  }
  for (std::size_t g = 0; g < 16; ++g) to.bits(192 + g, 0, block.scales[g], 0, 8);
}

// Writes the two low bits of the codes of a super-block: a byte holds elements that are 32 apart.
void write_two_bits(BlockWriter& to, std::size_t at, const Meaning& block) {
  for (std::size_t e = 0; e < 256; ++e) {
    to.bits(at + e / 128 * 32 + e % 32, static_cast<int>(e / 32 % 4 * 2), block.codes[e], 0, 2);
  }
}

void write_q3_k(BlockWriter& to, const Meaning& block) {
  for (std::size_t e = 0; e < 256; ++e) {
    to.bits(e % 32, static_cast<int>(e / 32), block.codes[e], 2, 1);
  }
  write_two_bits(to, 32, block);
  for (std::size_t g = 0; g < 16; ++g) {
    to.bits(96 + g % 8, g < 8 ? 0 : 4, block.scales[g], 0, 4);
    to.bits(104 + g % 4, static_cast<int>(g / 4 * 2), block.scales[g], 4, 2);
  }
}

void write_iq4_xs(BlockWriter& to, const Meaning& block) {
  for (std::size_t g = 0; g < 8; ++g) {
    to.bits(4 + g / 2, g % 2 == 0 ? 0 : 4, block.scales[g], 0, 4);
    to.bits(2 + g / 4, static_cast<int>(g % 4 * 2), block.scales[g], 4, 2);
  }
  write_nibbles(to, 8, block);
}

std::vector<std::byte> written(TensorType type, const Meaning& block) {
  BlockWriter to(engine::traits_of(type).block_bytes);
  const bool affine = engine::find_quant_traits(type)->affine;
  const auto& traits = *engine::find_quant_traits(type);
  if (traits.halves > 0) to.half(traits.halves_at, block.d);
  if (affine) to.half(traits.halves_at + 2, block.m);
  const std::size_t head = affine ? 4 : 2;
  switch (type) {
    case TensorType::q8_0:
      for (std::size_t e = 0; e < 32; ++e) to.bits(2 + e, 0, block.codes[e], 0, 8);
      break;
    case TensorType::q5_0:
    case TensorType::q5_1:
      write_fifth_bits(to, head, block);
      write_nibbles(to, head + 4, block);
      break;
    case TensorType::q4_k:
      write_k_scales(to, block);
      write_k_nibbles(to, 16, block);
      break;
    case TensorType::q5_k:
      write_k_scales(to, block);
      for (std::size_t e = 0; e < 256; ++e) {
        to.bits(16 + e % 32, static_cast<int>(e / 32), block.codes[e], 4, 1);
      }
      write_k_nibbles(to, 48, block);
      break;
    case TensorType::q6_k:
      write_q6_k(to, block);
      break;
    case TensorType::q3_k:
      write_q3_k(to, block);
      break;
    case TensorType::q2_k:
      for (std::size_t g = 0; g < 16; ++g) {
        to.bits(g, 0, block.scales[g], 0, 4);
        to.bits(g, 4, block.minimums[g], 0, 4);
      }
      write_two_bits(to, 16, block);
      break;
    case TensorType::iq4_xs:
      write_iq4_xs(to, block);
      break;
    case TensorType::mxfp4:
      to.bits(0, 0, block.scales[0], 0, 8);
      write_nibbles(to, 1, block);
      break;
    case TensorType::nvfp4:
      for (std::size_t g = 0; g < 4; ++g) to.bits(g, 0, block.scales[g], 0, 8);
      write_nibbles(to, 4, block, 8);
      break;
    default:
      write_nibbles(to, head, block);
  }
  return to.take();
}

// Returns a float without its sign: `fraction` bits after those of the exponent.
double small_float(int bits, int fraction, int bias) {
  const int exponent = bits >> fraction, one = 1 << fraction;
  const double value = static_cast<double>(bits % one) / one;
  return exponent == 0 ? std::ldexp(value, 1 - bias) : std::ldexp(1 + value, exponent - bias);
}

double e2m1(int bits) {
  return (bits < 8 ? 1 : -1) * small_float(bits % 8, 1, 1);
}

// The type's arithmetic in float64, where nothing is rounded, rounded once to float.
float wanted(TensorType type, const Meaning& block, std::size_t e) {
  static constexpr int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
  const double d = engine::half_to_float(block.d), m = engine::half_to_float(block.m);
  const int q = block.codes[e];
  const auto value = [&]() -> double {
    switch (type) {
      case TensorType::q8_0:
        return d * q;
      case TensorType::q4_0:
        return d * (q - 8);
      case TensorType::q5_0:
        return d * (q - 16);
      case TensorType::iq4_nl:
        return d * levels[q];
      case TensorType::q4_k:
      case TensorType::q5_k:
        return d * block.scales[e / 32] * q - m * block.minimums[e / 32];
      case TensorType::q6_k:
        return d * block.scales[e / 16] * (q - 32);
      case TensorType::q3_k:
        return d * (block.scales[e / 16] - 32) * (q - 4);
      case TensorType::q2_k:
        return d * block.scales[e / 16] * q - m * block.minimums[e / 16];
      case TensorType::iq4_xs:
        return d * (block.scales[e / 32] - 32) * levels[q];
      case TensorType::mxfp4:
        return std::ldexp(e2m1(q), block.scales[0] - 127);
      case TensorType::nvfp4: {
        const int scale = block.scales[e / 16];
        return scale == 127 ? 0 : small_float(scale % 128, 3, 7) * e2m1(q);
      }
      default:
        return d * q + m;
    }
  };
  return static_cast<float>(value());
}

struct Ranges {
  TensorType type;
  int codes_from, codes_to, scales_from, scales_to;
};

constexpr Ranges ranges[] = {
    {TensorType::q8_0, -128, 127, 0, 0}, {TensorType::q6_k, 0, 63, -128, 127},
    {TensorType::q5_0, 0, 31, 0, 0},     {TensorType::q5_1, 0, 31, 0, 0},
    {TensorType::q5_k, 0, 31, 0, 63},    {TensorType::q4_0, 0, 15, 0, 0},
    {TensorType::q4_1, 0, 15, 0, 0},     {TensorType::q4_k, 0, 15, 0, 63},
    {TensorType::q3_k, 0, 7, 0, 63},     {TensorType::q2_k, 0, 3, 0, 15},
    {TensorType::iq4_nl, 0, 15, 0, 0},   {TensorType::iq4_xs, 0, 15, 0, 63},
    {TensorType::mxfp4, 0, 15, 0, 252},  {TensorType::nvfp4, 0, 15, 0, 255},
};
constexpr std::size_t types_with_grids = 5;

Meaning random_meaning(const Ranges& range, std::mt19937_64& random) {
  const auto between = [&random](int from, int to) {
    return from + static_cast<int>(random() % static_cast<std::uint64_t>(to - from + 1));
  };
  // Any finite half: zeros, subnormals, the largest, both signs.
  const auto half = [&] {
    return static_cast<std::uint16_t>(between(0, 1) << 15 | between(0, 0x7bff));
  };
  Meaning out;
  for (std::uint32_t i = 0; i < engine::traits_of(range.type).block_elements; ++i) {
    out.codes.push_back(between(range.codes_from, range.codes_to));
  }
  for (int i = 0; i < 16; ++i) {
    out.scales.push_back(between(range.scales_from, range.scales_to));
    out.minimums.push_back(between(range.scales_from, range.scales_to));
  }
  out.d = half();
  out.m = half();
  return out;
}

TEST(QuantBlock, EveryTypeIsItsFormulaRoundedOnce) {
  for (const Ranges& range : ranges) {
    SCOPED_TRACE(engine::traits_of(range.type).name);
    std::mt19937_64 random(static_cast<std::uint64_t>(range.type) + 7);
    for (int i = 0; i < 300; ++i) {
      const Meaning block = random_meaning(range, random);
      std::vector<float> out(block.codes.size());
      const Status status = engine::dequantize(range.type, written(range.type, block), out);
      ASSERT_TRUE(status) << status.error().text();
      for (std::size_t e = 0; e < out.size(); ++e) {
        ASSERT_EQ(out[e], wanted(range.type, block, e)) << "block " << i << ", element " << e;
      }
    }
  }
}

// The kernels' sums are exact for codes of so many bits. An offset that is not in the middle would
// need kernels of its own.
TEST(QuantBlock, TraitsFitThePanels) {
  std::size_t quantized = 0;
  for (const auto& type : engine::tensor_types()) {
    const auto* const traits = engine::find_quant_traits(type.type);
    ASSERT_EQ(traits == nullptr, type.block_elements == 1) << type.name;
    if (traits == nullptr) continue;
    ++quantized;
    EXPECT_EQ(traits->type, type.type);
    EXPECT_LE(type.block_elements, engine::most_block_elements);
    EXPECT_TRUE(traits->group_elements == 32 || traits->group_elements == 16);
    EXPECT_TRUE(traits->bits == 2 || (traits->bits >= 4 && traits->bits <= 6) || traits->bits == 8)
        << type.name;
    const bool centered = !traits->affine && traits->levels == nullptr;
    EXPECT_EQ(traits->offset, centered ? 1 << (traits->bits - 1) : 0) << type.name;
    EXPECT_TRUE(traits->levels == nullptr || (traits->bits == 4 && !traits->affine)) << type.name;
    EXPECT_EQ(traits->halves, traits->affine ? 2u : traits->halves == 0 ? 0u : 1u) << type.name;
    EXPECT_LE(traits->halves_at + 2 * traits->halves, type.block_bytes) << type.name;
    // Halves can serve as scales only if a block is one group.
    EXPECT_TRUE(traits->scales != engine::ScaleForm::halves ||
                traits->group_elements == type.block_elements);
    // The halves that steps multiply serve 256 columns.
    EXPECT_TRUE(traits->scales != engine::ScaleForm::steps || type.block_elements == 256);
  }
  EXPECT_EQ(quantized, std::size(ranges) + types_with_grids);
}

}  // namespace
}  // namespace millrace::testing
