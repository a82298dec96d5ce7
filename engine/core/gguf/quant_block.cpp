#include "engine/core/gguf/quant_block.hpp"

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/load.hpp"

namespace millrace::engine {
namespace {

using Bytes = const std::byte*;

float half_at(Bytes from) {
  return half_to_float(load<std::uint16_t>(from));
}

int low(std::byte byte) {
  return std::to_integer<int>(byte) & 15;
}
int high(std::byte byte) {
  return std::to_integer<int>(byte) >> 4;
}
// Returns `bits` bits of a byte, from bit `at` on.
int field(std::byte byte, int at, int bits) {
  return (std::to_integer<int>(byte) >> at) & ((1 << bits) - 1);
}
std::uint8_t code(int value) {
  return static_cast<std::uint8_t>(value);
}
// The code of a signed value in a type of eight bits.
std::uint8_t shifted(int value) {
  return code(value + 128);
}

// Unpacks 32 codes of four bits from 16 bytes: low nibbles are elements 0-15, high ones 16-31.
void nibbles(Bytes packed, QuantBlock& out) {
  for (std::size_t i = 0; i < 16; ++i) {
    out.codes[i] = code(low(packed[i]));
    out.codes[i + 16] = code(high(packed[i]));
  }
}

// half d, int8 q[32]
void q8_0(Bytes block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  for (std::size_t i = 0; i < 32; ++i)  // adding 128 to a signed byte flips its top bit
    out.codes[i] = std::to_integer<std::uint8_t>(block[2 + i] ^ std::byte{0x80});
}

// half d, nibbles with the offset 8
void q4_0(Bytes block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  nibbles(block + 2, out);
}

// half d, half m, nibbles
void q4_1(Bytes block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  nibbles(block + 4, out);
}

// half d, nibbles: each the index of one of 16 levels
void iq4_nl(Bytes block, QuantBlock& out) {
  static constexpr int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};
  out.scales[0] = half_at(block);
  nibbles(block + 2, out);
  for (std::size_t i = 0; i < 32; ++i) out.codes[i] = shifted(levels[out.codes[i]]);
}

// Unpacks 32 codes of five bits: bit i of four bytes is the fifth bit of code i, then come nibbles.
// Adds `add` to each code.
void five_bits(Bytes packed, int add, QuantBlock& out) {
  const auto fifth = [packed](std::size_t i) {
    return field(packed[i / 8], static_cast<int>(i % 8), 1) << 4;
  };
  const Bytes nibble = packed + 4;
  for (std::size_t i = 0; i < 16; ++i) {
    out.codes[i] = code((low(nibble[i]) | fifth(i)) + add);
    out.codes[i + 16] = code((high(nibble[i]) | fifth(i + 16)) + add);
  }
}

// half d, five bits with the offset 16
void q5_0(Bytes block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  five_bits(block + 2, 128 - 16, out);
}

// half d, half m, five bits
void q5_1(Bytes block, QuantBlock& out) {
  out.scales[0] = half_at(block);
  out.minimums[0] = half_at(block + 2);
  five_bits(block + 4, 0, out);
}

// The head of Q4_K and Q5_K: half d, half m, then 12 bytes with 8 scales s and 8 minimums n of six
// bits. Group g has the scale d s[g] and the minimum -m n[g]. For g < 4, byte g holds s[g] and, in
// its top two bits, the high bits of s[g + 4]; byte 4 + g holds the same for n; byte 8 + g holds
// the low nibble of s[g + 4] and, above it, that of n[g + 4].
void k_head(Bytes block, QuantBlock& out) {
  const float d = half_at(block), m = half_at(block + 2);
  const Bytes packed = block + 4;
  for (std::size_t g = 0; g < 4; ++g) {
    const Bytes s = packed + g, n = packed + 4 + g, rest = packed + 8 + g;
    out.scales[g] = d * static_cast<float>(field(*s, 0, 6));
    out.minimums[g] = -(m * static_cast<float>(field(*n, 0, 6)));
    out.scales[g + 4] = d * static_cast<float>(low(*rest) | field(*s, 6, 2) << 4);
    out.minimums[g + 4] = -(m * static_cast<float>(high(*rest) | field(*n, 6, 2) << 4));
  }
}

// k_head, then four times 32 bytes: low nibbles are 32 codes, high ones the next 32.
void q4_k(Bytes block, QuantBlock& out) {
  k_head(block, out);
  const Bytes packed = block + 16;
  for (std::size_t i = 0; i < 128; ++i) {
    const std::size_t to = i / 32 * 64 + i % 32;
    out.codes[to] = code(low(packed[i]));
    out.codes[to + 32] = code(high(packed[i]));
  }
}

// k_head, then 32 bytes whose bit g is the fifth bit of a code in group g, then nibbles as in Q4_K.
void q5_k(Bytes block, QuantBlock& out) {
  k_head(block, out);
  const Bytes fifth = block + 16, packed = fifth + 32;
  for (std::size_t i = 0; i < 128; ++i) {
    const int pair = static_cast<int>(i / 32) * 2;
    const std::size_t to = i / 32 * 64 + i % 32;
    out.codes[to] = code(low(packed[i]) | field(fifth[i % 32], pair, 1) << 4);
    out.codes[to + 32] = code(high(packed[i]) | field(fifth[i % 32], pair + 1, 1) << 4);
  }
}

// 128 bytes of low nibbles, 64 bytes of two high bits, int8 s[16], half d; codes have the offset
// 32, group g has the scale d s[g]. Each half of the block holds four runs of 32 codes: low nibbles
// of 32 bytes, of the next 32, then the high nibbles of both; run r has bits 2r, 2r + 1 of its 32
// bytes.
void q6_k(Bytes block, QuantBlock& out) {
  const Bytes scales = block + 192;
  const float d = half_at(block + 208);
  for (std::size_t g = 0; g < 16; ++g)
    out.scales[g] = d * static_cast<float>(static_cast<std::int8_t>(scales[g]));
  for (std::size_t half = 0; half < 2; ++half) {
    const Bytes four = block + half * 64, two = block + 128 + half * 32;
    for (std::size_t i = 0; i < 64; ++i) {
      const int run = static_cast<int>(i / 32);
      const std::size_t to = half * 128 + i;
      out.codes[to] = shifted((low(four[i]) | field(two[i % 32], 2 * run, 2) << 4) - 32);
      out.codes[to + 64] = shifted((high(four[i]) | field(two[i % 32], 2 * run + 4, 2) << 4) - 32);
    }
  }
}

// type, group elements, bits, offset, affine, half scales, offset of the halves, unpack
constexpr QuantTraits kQuantized[] = {
    {TensorType::q8_0, 32, 8, 128, false, true, 0, q8_0},
    {TensorType::q6_k, 16, 8, 128, false, false, 208, q6_k},
    {TensorType::q5_0, 32, 8, 128, false, true, 0, q5_0},
    {TensorType::q5_1, 32, 8, 0, true, true, 0, q5_1},
    {TensorType::q5_k, 32, 8, 0, true, false, 0, q5_k},
    {TensorType::q4_0, 32, 4, 8, false, true, 0, q4_0},
    {TensorType::q4_1, 32, 4, 0, true, true, 0, q4_1},
    {TensorType::q4_k, 32, 4, 0, true, false, 0, q4_k},
    {TensorType::iq4_nl, 32, 8, 128, false, true, 0, iq4_nl},
};

}  // namespace

const QuantTraits* find_quant_traits(TensorType type) {
  for (const auto& traits : kQuantized)
    if (traits.type == type) return &traits;
  return nullptr;
}

}  // namespace millrace::engine
