#pragma once
// Reads single weights of a panel (layout.cl), for code that needs few of them.
#include "matmul/layout.cl"

#if SCALE_SIZE > 0
// Returns scale i of a block and row.
static inline float mr_scale(__global const uchar* panel, uint row, uint block, uint i) {
  const uint at = (block * SCALES + i) * 16 + row;
#if SCALE_SIZE == 1
  __global const half* halves = (__global const half*)(panel + HALVES_AT);
  const uint half_at = (block / 8 * (1 + AFFINE) + i / RUNS) * 16 + row;
  return vload_half(half_at, halves) * (float)((__global const char*)(panel + SCALES_AT))[at];
#elif SCALE_SIZE == 2
  return vload_half(at, (__global const half*)(panel + SCALES_AT));
#else
  return ((__global const float*)(panel + SCALES_AT))[at];
#endif
}

// Returns the codes of columns 4g .. 4g+3 of a block and row, one a byte.
static inline uint mr_codes_of(__global const uchar* panel, uint row, uint block, uint g) {
  __global const uint* words = (__global const uint*)(panel + CODES_AT) + block * WORDS * 16 + row;
#define MR_WORD(i) words[(i) * 16]
#if CODES == 5 || CODES == 6
  return MR_LOW_CODES(uint, MR_WORD, g) | MR_HIGH_CODES(uint, MR_WORD, g);
#else
  return MR_LOW_CODES(uint, MR_WORD, g);
#endif
#undef MR_WORD
}
#endif

// Returns the weight in row 0..15 of a panel and column k.
static inline float mr_weight(__global const uchar* panel, uint row, uint k) {
#if SCALE_SIZE > 0
  const uint code = mr_codes_of(panel, row, k / 32, k % 32 / 4) >> k % 4 * 8 & 255u;
  const float value = (float)((int)(CODE_LEVELS ? panel[code] : code) - OFFSET);
  const uint run = k % 32 / SCALE_BLOCK;
  const float d = mr_scale(panel, row, k / 32, run);
#if AFFINE
  return fma(d, value, mr_scale(panel, row, k / 32, RUNS + run));
#else
  return d * value;
#endif
#elif CODES == MR_F32
  return ((__global const float*)panel)[k * 16 + row];
#else
  const uint at = QUADS ? (k / 4 * 16 + row) * 4 + k % 4 : k * 16 + row;
#if CODES == MR_F16
  return vload_half(at, (__global const half*)panel);
#else
  return as_float((uint)((__global const ushort*)panel)[at] << 16);
#endif
#endif
}
