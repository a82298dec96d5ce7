#pragma once
// Codes as halves or bytes, for operands of the matrix unit.
//
// mr_permute(a, b, select): byte i of the result is the byte of {a, b}, eight in all, that the low
// three bits of nibble i of `select` name; if the nibble's top bit is set, it is that byte's sign
// bit, eight times.
//
// mr_chosen(mask, x, y): the bits of x where `mask` has them, of y elsewhere.
//
// mr_less_halves(x, y): x - y for both halves of a word.
//
// mr_pairs(words, bytes, less): four bytes as two words of halves; `less` is subtracted from 1,024
// plus a byte, which a half represents by the byte alone below 0x64.
#include "common/halves.cl"
#include "common/prelude.cl"

#define MR_THOUSANDS 0x64646464u  // the upper bytes of halves from 1,024 to 2,047

#if MATRIX_UNIT
static inline uint mr_permute(uint a, uint b, uint select) {
  uint bytes;
  __asm__("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(select));
  return bytes;
}
static inline uint mr_chosen(uint mask, uint x, uint y) {
  uint bits;
  __asm__("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(bits) : "r"(mask), "r"(x), "r"(y));
  return bits;
}
static inline uint mr_less_halves(uint x, uint y) {
  uint halves;
  __asm__("sub.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(x), "r"(y));
  return halves;
}
#else
static inline uint mr_permute(uint a, uint b, uint select) {
  uint bytes = 0;
  for (uint i = 0; i < 4; ++i) {
    const uint nibble = select >> (4 * i) & 15;
    uint byte = (nibble % 8 < 4 ? a : b) >> (8 * (nibble % 4)) & 255;
    if (nibble > 7) byte = byte > 127 ? 255 : 0;
    bytes |= byte << (8 * i);
  }
  return bytes;
}
static inline uint mr_chosen(uint mask, uint x, uint y) {
  return (mask & x) | (~mask & y);
}
static inline uint mr_less_halves(uint x, uint y) {
  return mr_halves(mr_from_half(x & 0xffff) - mr_from_half(y & 0xffff),
                   mr_from_half(x >> 16) - mr_from_half(y >> 16));
}
#endif

static inline void mr_pairs(uint* words, uint bytes, uint less) {
  words[0] = mr_less_halves(mr_permute(bytes, MR_THOUSANDS, 0x4140), less);
  words[1] = mr_less_halves(mr_permute(bytes, MR_THOUSANDS, 0x4342), less);
}

// x, with the bits that leave at the top coming in at the bottom.
static inline uint mr_rotated_left(uint x, uint count) {
  return x << (count & 31) | x >> (-count & 31);
}
