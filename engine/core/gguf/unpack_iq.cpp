// Blocks of the types IQ*. Except in IQ4_XS, a code is a magnitude of a grid's point in its low
// bits, and in bit 3 whether the weight is negative.
#include <bit>

#include "engine/core/gguf/iq_grids.hpp"
#include "engine/core/gguf/unpack.hpp"

namespace millrace::engine::unpack {
namespace {

// Writes the codes of `Count` weights at a point; bit i of `signs` is that of weight i.
template <std::size_t Count>
void place(std::uint16_t point, int signs, std::uint8_t* to) {
  constexpr std::size_t bits = 16 / Count;
  for (std::size_t i = 0; i < Count; ++i) {
    const int magnitude = point >> (bits * i) & ((1 << bits) - 1);
    to[i] = code(magnitude | (signs >> i & 1) << 3);
  }
}

// Returns the signs of eight weights from seven bits: an even number of weights is negative.
int even_signs(std::uint32_t seven) {
  return static_cast<int>(seven | static_cast<std::uint32_t>(std::popcount(seven) & 1) << 7);
}

// Returns d * (2s + 1) / divisor, which is exact.
float odd_scale(float d, int s, float divisor) {
  return d * static_cast<float>(2 * s + 1) / divisor;
}

}  // namespace

// half d, two bytes with the high bits of scales, four with their low nibbles, then nibbles of each
// 32 elements. Group g has the scale d (s[g] - 32); bits 2g and 2g + 1 of the two bytes are the
// high bits of s[g].
void iq4_xs(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  const auto tops = load<std::uint16_t>(block + 2);
  for (std::size_t g = 0; g < 8; ++g) {
    const int s = nibble(block + 4, g) | (tops >> (2 * g) & 3) << 4;
    out.scales[g] = d * static_cast<float>(s - 32);
    nibbles(block + 8 + 16 * g, &out.codes[32 * g]);
  }
}

// half d, 64 low bytes of points, eight bytes with a ninth bit of each, 32 bytes of signs, nibbles
// s of groups, whose scale is d (2s + 1).
void iq3_s(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  const Packed points = block + 2, ninth = points + 64, signs = ninth + 8, scales = signs + 32;
  for (std::size_t g = 0; g < 8; ++g) out.scales[g] = odd_scale(d, nibble(scales, g), 1);
  for (std::size_t i = 0; i < 64; ++i) {
    const int point = std::to_integer<int>(points[i]) | field(ninth[i / 8], i % 8, 1) << 8;
    place<4>(iq3_s_grid[static_cast<std::size_t>(point)], nibble(signs, i), &out.codes[4 * i]);
  }
}

// half d, 64 bytes of points, then a word for each group: the signs of four times eight weights in
// seven bits each, and four bits s of the scale d (2s + 1) / 4.
void iq3_xxs(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  const Packed points = block + 2, words = points + 64;
  for (std::size_t g = 0; g < 8; ++g) {
    const auto word = load<std::uint32_t>(words + 4 * g);
    out.scales[g] = odd_scale(d, static_cast<int>(word >> 28), 4);
    for (std::size_t i = 8 * g; i < 8 * g + 8; ++i) {
      const int signs = even_signs(word >> i % 8 / 2 * 7 & 127);
      const auto point = iq3_xxs_grid[std::to_integer<std::size_t>(points[i])];
      place<4>(point, signs >> i % 2 * 4, &out.codes[4 * i]);
    }
  }
}

// half d, 32 low bytes of points, 32 bytes of signs, eight bytes with two high bits of each point,
// nibbles s of groups, whose scale is d (2s + 1) / 8.
void iq2_s(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  const Packed points = block + 2, signs = points + 32, tops = signs + 32, scales = tops + 8;
  for (std::size_t g = 0; g < 16; ++g) out.scales[g] = odd_scale(d, nibble(scales, g), 8);
  for (std::size_t i = 0; i < 32; ++i) {
    const int point = std::to_integer<int>(points[i]) | field(tops[i / 4], i % 4 * 2, 2) << 8;
    place<8>(iq2_s_grid[static_cast<std::size_t>(point)], std::to_integer<int>(signs[i]),
             &out.codes[8 * i]);
  }
}

// half d, 32 times two bytes with a point in nine bits and signs in seven, nibbles s of groups,
// whose scale is d (2s + 1) / 8.
void iq2_xs(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  const Packed points = block + 2, scales = points + 64;
  for (std::size_t g = 0; g < 16; ++g) out.scales[g] = odd_scale(d, nibble(scales, g), 8);
  for (std::size_t i = 0; i < 32; ++i) {
    const auto both = load<std::uint16_t>(points + 2 * i);
    place<8>(iq2_xs_grid[both & 511u], even_signs(both >> 9), &out.codes[8 * i]);
  }
}

// half d, then for each group four bytes of points and a word as in IQ3_XXS, with the scale
// d (2s + 1) / 8.
void iq2_xxs(Packed block, QuantBlock& out) {
  const float d = half_at(block);
  for (std::size_t g = 0; g < 8; ++g) {
    const Packed points = block + 2 + 8 * g;
    const auto word = load<std::uint32_t>(points + 4);
    out.scales[g] = odd_scale(d, static_cast<int>(word >> 28), 8);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto point = iq2_xxs_grid[std::to_integer<std::size_t>(points[i])];
      place<8>(point, even_signs(word >> 7 * i & 127), &out.codes[32 * g + 8 * i]);
    }
  }
}

}  // namespace millrace::engine::unpack
