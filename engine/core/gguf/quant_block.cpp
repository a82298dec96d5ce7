#include "engine/core/gguf/quant_block.hpp"

#include <cmath>

#include "engine/core/gguf/unpack.hpp"

namespace millrace::engine {
namespace {

using namespace unpack;

// The levels of IQ4_NL and IQ4_XS; those of the 4-bit floats E2M1, doubled; and the magnitudes of
// grids, then the same below zero.
constexpr Levels iq4_levels{-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};
constexpr Levels e2m1_levels{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr Levels iq3_s_levels{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
constexpr Levels iq3_xxs_levels{4,  12,  20,  28,  36,  44,  52,  62,
                                -4, -12, -20, -28, -36, -44, -52, -62};
constexpr Levels iq2_levels{8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0};

// half d, int8 q[32]
void q8_0(Packed block, QuantBlock& out) {
  for (std::size_t i = 0; i < 32; i += 8) {  // adding 128 to a signed byte flips its top bit
    store_eight(&out.codes[i], eight(block + 2 + i) ^ 0x8080808080808080);
  }
}

// half d, nibbles with the offset 8
void q4_0(Packed block, QuantBlock& out) {
  nibbles(block + 2, out.codes.data());
}

// half d, half m, nibbles
void q4_1(Packed block, QuantBlock& out) {
  nibbles(block + 4, out.codes.data());
}

// half d, nibbles that number levels
void iq4_nl(Packed block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  nibbles(block + 2, out.codes.data());
}

// e, nibbles that number levels; the scale is 2^(e - 128)
void mxfp4(Packed block, QuantBlock& out) {
  out.scales[0] = std::ldexp(1.0f, std::to_integer<int>(*block) - 128);
  nibbles(block + 1, out.codes.data());
}

// Whether all 16 levels, up to 12, give finite numbers. By the standard, 255 is not a number.
bool mxfp4_is_finite(Packed block) {
  return std::to_integer<int>(*block) <= 252;
}

// A byte of NVFP4's scales: three bits of fraction, four of exponent with the bias 7; the highest
// bit counts nothing, and 127 is 0. Levels are doubled, so that this is half the number.
float nvfp4_scale(std::byte packed) {
  if (packed == std::byte{127}) return 0;
  const int fraction = field(packed, 0, 3), exponent = field(packed, 3, 4);
  return exponent == 0 ? std::ldexp(static_cast<float>(fraction), -10)
                       : std::ldexp(static_cast<float>(8 + fraction), exponent - 11);
}

// Four scales, then eight bytes for each group of 16: low nibbles are elements 0-7, high ones 8-15
void nvfp4(Packed block, QuantBlock& out) {
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t to = i / 8 * 16 + i % 8;
    out.codes[to] = code(low(block[4 + i]));
    out.codes[to + 8] = code(high(block[4 + i]));
  }
  for (std::size_t g = 0; g < 4; ++g) out.scales[g] = nvfp4_scale(block[g]);
}

// Unpacks 32 codes of five bits: bit i of four bytes is the fifth bit of code i, then come nibbles.
void five_bits(Packed packed, QuantBlock& out) {
  const auto fifth = [packed](std::size_t i) { return field(packed[i / 8], i % 8, 1) << 4; };
  const Packed nibble = packed + 4;
  for (std::size_t i = 0; i < 16; ++i) {
    out.codes[i] = code(low(nibble[i]) | fifth(i));
    out.codes[i + 16] = code(high(nibble[i]) | fifth(i + 16));
  }
}

// half d, five bits with the offset 16
void q5_0(Packed block, QuantBlock& out) {
  five_bits(block + 2, out);
}

// half d, half m, five bits
void q5_1(Packed block, QuantBlock& out) {
  five_bits(block + 4, out);
}

constexpr ScaleForm halves = ScaleForm::halves, steps = ScaleForm::steps,
                    floats = ScaleForm::floats;

// type, group elements, bits, offset, affine, scales, halves, offset of the halves, fill, levels,
// is_finite. IQ4_NL could keep its scales as halves and IQ4_XS as steps; as floats, the two types,
// which share files, share kernels.
constexpr QuantTraits kQuantized[] = {
    {TensorType::q8_0, 32, 8, 128, false, halves, 1, 0, q8_0},
    {TensorType::q6_k, 16, 6, 32, false, steps, 1, 208, q6_k},
    {TensorType::q5_0, 32, 5, 16, false, halves, 1, 0, q5_0},
    {TensorType::q5_1, 32, 5, 0, true, halves, 2, 0, q5_1},
    {TensorType::q5_k, 32, 5, 0, true, steps, 2, 0, q5_k},
    {TensorType::q4_0, 32, 4, 8, false, halves, 1, 0, q4_0},
    {TensorType::q4_1, 32, 4, 0, true, halves, 2, 0, q4_1},
    {TensorType::q4_k, 32, 4, 0, true, steps, 2, 0, q4_k},
    {TensorType::q3_k, 16, 4, 8, false, steps, 1, 108, q3_k},
    {TensorType::q2_k, 16, 2, 0, true, steps, 2, 80, q2_k},
    {TensorType::iq4_nl, 32, 4, 0, false, floats, 1, 0, iq4_nl, &iq4_levels},
    {TensorType::iq4_xs, 32, 4, 0, false, floats, 1, 0, iq4_xs, &iq4_levels},
    {TensorType::iq3_s, 32, 4, 0, false, floats, 1, 0, iq3_s, &iq3_s_levels},
    {TensorType::iq3_xxs, 32, 4, 0, false, floats, 1, 0, iq3_xxs, &iq3_xxs_levels},
    {TensorType::iq2_s, 16, 4, 0, false, floats, 1, 0, iq2_s, &iq2_levels},
    {TensorType::iq2_xs, 16, 4, 0, false, floats, 1, 0, iq2_xs, &iq2_levels},
    {TensorType::iq2_xxs, 32, 4, 0, false, floats, 1, 0, iq2_xxs, &iq2_levels},
    {TensorType::mxfp4, 32, 4, 0, false, floats, 0, 0, mxfp4, &e2m1_levels, mxfp4_is_finite},
    {TensorType::nvfp4, 16, 4, 0, false, floats, 0, 0, nvfp4, &e2m1_levels},
};

}  // namespace

const QuantTraits* find_quant_traits(TensorType type) {
  for (const auto& traits : kQuantized)
    if (traits.type == type) return &traits;
  return nullptr;
}

void unpack_block(const QuantTraits& traits, const std::byte* block, QuantBlock& out) {
  traits.fill(block, out);
  if (traits.scales == floats) return;
  const Packed at = block + traits.halves_at;
  const float d = half_at(at), m = traits.affine ? half_at(at + 2) : 0.0f;
  const bool stepped = traits.scales == steps;
  const std::uint32_t groups = traits_of(traits.type).block_elements / traits.group_elements;
  for (std::uint32_t g = 0; g < groups; ++g) {
    out.scales[g] = stepped ? d * static_cast<float>(out.steps[g]) : d;
    if (!traits.affine) continue;
    out.minimums[g] = stepped ? -(m * static_cast<float>(out.minimum_steps[g])) : m;
  }
}

}  // namespace millrace::engine
