// Blocks of the types Q*_K.
#include "engine/core/gguf/unpack.hpp"

namespace millrace::engine::unpack {
namespace {

std::int8_t step(int value) {
  return static_cast<std::int8_t>(value);
}

// The head of Q4_K and Q5_K: half d, half m, then 12 bytes with 8 scales s and 8 minimums n of six
// bits. Group g has the scale d s[g] and the minimum -m n[g]. For g < 4, byte g holds s[g] and, in
// its top two bits, the high bits of s[g + 4]; byte 4 + g holds the same for n; byte 8 + g holds
// the low nibble of s[g + 4] and, above it, that of n[g + 4].
void k_head(Packed block, QuantBlock& out) {
  const Packed packed = block + 4;
  for (std::size_t g = 0; g < 4; ++g) {
    const Packed s = packed + g, n = packed + 4 + g, rest = packed + 8 + g;
    out.steps[g] = step(field(*s, 0, 6));
    out.minimum_steps[g] = step(field(*n, 0, 6));
    out.steps[g + 4] = step(low(*rest) | field(*s, 6, 2) << 4);
    out.minimum_steps[g + 4] = step(high(*rest) | field(*n, 6, 2) << 4);
  }
}

// The two low bits of elements e to e + 7 of Q2_K and Q3_K: a byte holds elements that are 32
// apart.
std::uint64_t two_bits(Packed packed, std::size_t e) {
  return fields(eight(packed + e / 128 * 32 + e % 32), e % 128 / 32 * 2, 2);
}

}  // namespace

// 16 bytes, two bits of each code (two_bits), half d, half m. Group g has the scale d s[g] and the
// minimum -m n[g]: s[g] is the low nibble of its byte, n[g] the high one.
void q2_k(Packed block, QuantBlock& out) {
  const Packed packed = block + 16;
  for (std::size_t g = 0; g < 16; ++g) {
    out.steps[g] = step(low(block[g]));
    out.minimum_steps[g] = step(high(block[g]));
  }
  for (std::size_t e = 0; e < 256; e += 8) store_eight(&out.codes[e], two_bits(packed, e));
}

// 32 bytes whose bit g is the third bit of a code in run g of 32, two bits of each code (two_bits),
// 12 bytes with 16 scales s of six bits, half d; codes have the offset 4, group g has the scale
// d (s[g] - 32). The low nibbles of eight bytes, then their high ones, are the low bits of s; bits
// 2r and 2r + 1 of the other four bytes are the high bits of s[4r] to s[4r + 3].
void q3_k(Packed block, QuantBlock& out) {
  const Packed packed = block + 32, scales = packed + 64, tops = scales + 8;
  for (std::size_t g = 0; g < 16; ++g) {
    const int s = field(scales[g % 8], g / 8 * 4, 4) | field(tops[g % 4], g / 4 * 2, 2) << 4;
    out.steps[g] = step(s - 32);
  }
  for (std::size_t e = 0; e < 256; e += 8) {
    const std::uint64_t stored = two_bits(packed, e) | fields(eight(block + e % 32), e / 32, 1)
                                                           << 2;
    // A value is what is stored less 4; its code is 8 more.
    store_eight(&out.codes[e], stored + 0x0404040404040404);
  }
}

// k_head, then four times 32 bytes: low nibbles are 32 codes, high ones the next 32.
void q4_k(Packed block, QuantBlock& out) {
  k_head(block, out);
  const Packed packed = block + 16;
  for (std::size_t i = 0; i < 128; i += 8) {
    const std::size_t to = i / 32 * 64 + i % 32;
    store_eight(&out.codes[to], fields(eight(packed + i), 0, 4));
    store_eight(&out.codes[to + 32], fields(eight(packed + i), 4, 4));
  }
}

// k_head, then 32 bytes whose bit g is the fifth bit of a code in group g, then nibbles as in Q4_K.
void q5_k(Packed block, QuantBlock& out) {
  k_head(block, out);
  const Packed fifth = block + 16, packed = fifth + 32;
  for (std::size_t i = 0; i < 128; i += 8) {
    const std::size_t pair = i / 32 * 2;
    const std::size_t to = i / 32 * 64 + i % 32;
    const std::uint64_t four = eight(packed + i), one = eight(fifth + i % 32);
    store_eight(&out.codes[to], fields(four, 0, 4) | fields(one, pair, 1) << 4);
    store_eight(&out.codes[to + 32], fields(four, 4, 4) | fields(one, pair + 1, 1) << 4);
  }
}

// 128 bytes of low nibbles, 64 bytes of two high bits, int8 s[16], half d; codes have the offset
// 32, group g has the scale d s[g]. Each half of the block holds four runs of 32 codes: low nibbles
// of 32 bytes, of the next 32, then the high nibbles of both; run r has bits 2r, 2r + 1 of its 32
// bytes.
void q6_k(Packed block, QuantBlock& out) {
  const Packed scales = block + 192;
  for (std::size_t g = 0; g < 16; ++g) out.steps[g] = static_cast<std::int8_t>(scales[g]);
  for (std::size_t half = 0; half < 2; ++half) {
    const Packed four = block + half * 64, two = block + 128 + half * 32;
    for (std::size_t i = 0; i < 64; i += 8) {
      const std::size_t run = i / 32;
      const std::size_t to = half * 128 + i;
      const std::uint64_t nibbles = eight(four + i), high = eight(two + i % 32);
      store_eight(&out.codes[to], fields(nibbles, 0, 4) | fields(high, 2 * run, 2) << 4);
      store_eight(&out.codes[to + 64], fields(nibbles, 4, 4) | fields(high, 2 * run + 4, 2) << 4);
    }
  }
}

}  // namespace millrace::engine::unpack
