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

// Returns the codes of places 4g .. 4g+3 of a block and row, one a byte.
static inline uint mr_codes_of(__global const uchar* panel, uint row, uint block, uint g) {
  __global const uint* words = (__global const uint*)(panel + CODES_AT) + block * WORDS * 16;
#define MR_WORD(i) words[MR_WORD_AT(i, row)]
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
  const uint place = MR_PLACE(k % 32);
  const uint code = mr_codes_of(panel, row, k / 32, place / 4) >> place % 4 * 8 & 255u;
#if CODE_FLOATS
  const float value = MR_CODE_FLOAT(code) * 0.0625f;
#else
  const float value = (float)((int)(CODE_LEVELS ? panel[code] : code) - OFFSET);
#endif
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
#if UNIT_ROWS
  const uint at = ((k / 64 * 16 + row) * 8 + (k % 64 / 8 ^ row % 8)) * 8 + k % 8;
#elif LANES
  const uint place = MR_PLACE(k % 32), lane = row % 8 * 4 + place / 8;
  const uint at = k / 32 * 512 + ((place / 4 % 2 * 32 + lane) * 2 + row / 8) * 4 + place % 4;
#else
  const uint at = k * 16 + row;
#endif
#if CODES == MR_F16
  return vload_half(at, (__global const half*)panel);
#else
  return as_float((uint)((__global const ushort*)panel)[at] << 16);
#endif
#endif
}
