#pragma once
// Bytes of codes and of integers, for operands of the matrix unit.
//
// mr_permute(a, b, select): byte i of the result is the byte of {a, b}, eight in all, that the low
// three bits of nibble i of `select` name; if the nibble's top bit is set, it is that byte's sign
// bit, eight times.
//
// mr_chosen(mask, x, y): the bits of x where `mask` has them, of y elsewhere.
//
#include "common/prelude.cl"
#include "matmul/mma.cl"

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
#endif

// x, with the bits that leave at the top coming in at the bottom.
static inline uint mr_rotated_left(uint x, uint count) {
  return x << (count & 31) | x >> (-count & 31);
}
