#pragma once
// Makes operands of the matrix unit of weights: halves, the nearest even of each weight as the file
// defines it. A lane of a warp makes them from a panel's blocks in local memory, where a stage of
// STAGE_BLOCKS blocks has the codes (layout.cl, LANES 1), then the scales, then the halves that
// steps multiply. An operand has four words, which mma.cl and wgmma.cl place alike: for lane
// 4g + t, rows g and g + 8, pairs of columns t and t + 4 of 16.
//
// Where d is a half, and weights are d * (code - OFFSET), halves are multiplied: the product is
// rounded once, like a half made of the exact product. It takes 1.5 operations a weight; others are
// made in fp32 and take 3.5 and more.
//
// Defines besides those of layout.cl: STAGE_BLOCKS, 1, 2, 4 or 8; not 1 for F16.
#include "common/halves.cl"
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"

#ifndef STAGE_BLOCKS
#define STAGE_BLOCKS 2
#endif

#define STEPS ((K_BLOCKS + STAGE_BLOCKS - 1) / STAGE_BLOCKS)
// Whether block b of a stage exists; the stage must.
#define MR_EXISTS(step, b) \
  (K_BLOCKS % STAGE_BLOCKS == 0 || (step) * STAGE_BLOCKS + (b) < K_BLOCKS)
// In vectors of 16 bytes.
#define BLOCK_VECTORS STAGE_BLOCK_VECTORS(SCALE_SIZE > 0, WORDS)
#define SCALE_VECTORS (SCALES * SCALE_SIZE)  // of a block
#define STEP_VECTORS STAGE_STEP_VECTORS(SCALE_SIZE == 1, AFFINE)
#define STAGE_SCALES (STAGE_BLOCKS * BLOCK_VECTORS)
#define STAGE_STEPS (STAGE_SCALES + STAGE_BLOCKS * SCALE_VECTORS)
#define PANEL_STAGE STAGE_PANEL(STAGE_BLOCKS, BLOCK_VECTORS, SCALE_VECTORS, STEP_VECTORS)

#define HALF_PRODUCTS (MATRIX_UNIT && SCALE_SIZE == 2 && !AFFINE && !CODE_LEVELS)
// Floats of 4 bits become halves of 2^-14 times their value by moving bits; two products, of which
// only the last may round, give the weight.
#define FLOAT_UNIT 0x68006800u  // two halves 2^11

#if SCALE_SIZE > 0
// Returns the bits of the half that is, or multiplies, number i of row `row` of block b.
MR_GROUP_INLINE uint mr_staged_half(__local const uint4* stage, uint b, uint row, uint i) {
#if SCALE_SIZE == 1
  return ((__local const ushort*)(stage + STAGE_STEPS))[i / RUNS * 16 + row];
#else
  return ((__local const ushort*)(stage + STAGE_SCALES))[(b * SCALES + i) * 16 + row];
#endif
}

// Returns number i of row `row` of block b: a d, or an m.
MR_GROUP_INLINE float mr_staged_scale(__local const uint4* stage, uint b, uint row, uint i) {
#if SCALE_SIZE == 2
  return mr_from_half(mr_staged_half(stage, b, row, i));
#else
  const uint at = (b * SCALES + i) * 16 + row;
#if SCALE_SIZE == 4
  return ((__local const float*)(stage + STAGE_SCALES))[at];
#else
  return mr_from_half(mr_staged_half(stage, b, row, i)) *
         (float)((__local const char*)(stage + STAGE_SCALES))[at];
#endif
#endif
}

// Returns 2^23 plus byte i of `codes` as a float, exactly.
MR_GROUP_INLINE float mr_high_float(uint codes, uint i) {
#if MATRIX_UNIT
  uint bits;
  __asm__("prmt.b32 %0, %1, 0x4b000000, %2;" : "=r"(bits) : "r"(codes), "r"(0x7440u + i));
  return as_float(bits);
#else
  return as_float(0x4b000000u | (codes >> 8 * i & 255u));
#endif
}

// Returns the weight of code i of four.
MR_GROUP_INLINE float mr_value(__global const uchar* panel, uint codes, uint i, float d, float m) {
#if CODE_FLOATS
  const uint code = codes >> 8 * i & 255u;
  return d * (MR_CODE_FLOAT(code) * 0.0625f);
#elif CODE_LEVELS
  codes = panel[codes >> 8 * i & 255u];
  i = 0;
#endif
  const float value = mr_high_float(codes, i) - (8388608.0f + OFFSET);
#if AFFINE
  return fma(d, value, m);
#else
  return d * value;
#endif
}

// Makes two pairs of halves of four codes.
MR_GROUP_INLINE void mr_pairs(uint* first, uint* second, uint codes, __global const uchar* panel,
                              float d, float m) {
  *first = mr_halves(mr_value(panel, codes, 0, d, m), mr_value(panel, codes, 1, d, m));
  *second = mr_halves(mr_value(panel, codes, 2, d, m), mr_value(panel, codes, 3, d, m));
}

#if HALF_PRODUCTS && CODE_FLOATS
MR_GROUP_INLINE void mr_half_pairs(uint* first, uint* second, uint codes, uint d) {
  const uint bytes = (codes << 4 & 0x80808080u) | (codes << 1 & 0x0e0e0e0eu);
  __asm__(
      "{ .reg .b32 u, v; "
      "prmt.b32 u, %2, 0, 0x1404; prmt.b32 v, %2, 0, 0x3424; "
      "mul.rn.f16x2 u, u, %4; mul.rn.f16x2 v, v, %4; "
      "mul.rn.f16x2 %0, u, %3; mul.rn.f16x2 %1, v, %3; }"
      : "=&r"(*first), "=&r"(*second)
      : "r"(bytes), "r"(d), "r"(FLOAT_UNIT));
}
#elif HALF_PRODUCTS
// The same with d as two halves. A code becomes the half 1024 + code, then code - OFFSET, exactly.
MR_GROUP_INLINE void mr_half_pairs(uint* first, uint* second, uint codes, uint d) {
  __asm__(
      "{ .reg .b32 u, v, c; mov.b32 c, %4; "
      "prmt.b32 u, %2, 0x64646464, 0x4140; prmt.b32 v, %2, 0x64646464, 0x4342; "
      "sub.rn.f16x2 u, u, c; sub.rn.f16x2 v, v, c; "
      "mul.rn.f16x2 %0, u, %3; mul.rn.f16x2 %1, v, %3; }"
      : "=&r"(*first), "=&r"(*second)
      : "r"(codes), "r"(d), "n"((0x6400 + OFFSET) * 0x10001));
}
#endif

// The words of a lane of block b, in which word 2j + i is for operand j and row g + 8i, or with
// fewer words a lane, word i for both.
#if LOW_BITS == 8
#define MR_LANE_WORDS(words, block, lane)                           \
  {                                                                 \
    const uint4 all = (block)[lane];                                \
    words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w; \
  }
#elif LOW_BITS == 4
#define MR_LANE_WORDS(words, block, lane)                   \
  {                                                         \
    const uint2 all = ((__local const uint2*)(block))[lane]; \
    words[0] = all.x, words[1] = all.y;                     \
  }
#else
#define MR_LANE_WORDS(words, block, lane)                           \
  MR_EACH(i, 2) {                                                   \
    words[i] = ((__local const uint*)(block))[(lane) % 4 / 2 * 16 + (lane) / 4 + 8 * i]; \
  }
#endif

// The codes of places 8t + 4j and on of row g + 8i.
MR_GROUP_INLINE uint mr_lane_codes(const uint* words, __local const uint* block, uint lane, uint i,
                                   uint j) {
#if CODES == 8
  return words[2 * j + i];
#elif CODES == 2
  return words[i] >> (lane % 2 * 4 + 2 * j) & 0x03030303u;
#else
  const uint low = words[i] >> (4 * j) & 0x0f0f0f0fu;
#if CODES > 4
#define MR_HIGH_WORD(k) block[(k) * 16 + lane / 4 + 8 * i]
  return low | MR_HIGH_CODES(uint, MR_HIGH_WORD, 2 * (lane % 4) + j);
#undef MR_HIGH_WORD
#else
  return low;
#endif
#endif
}

// Makes the two operands of a panel's block b.
MR_GROUP_INLINE void mr_operands(uint a[2][4], __local const uint4* stage,
                                 __global const uchar* panel, uint b, uint lane) {
  __local const uint4* block = stage + b * BLOCK_VECTORS;
  const uint g = lane / 4;
  uint words[4];
  MR_LANE_WORDS(words, block, lane)
  MR_EACH(i, 2) {
    const uint row = g + 8 * i;
    MR_EACH(j, 2) {
      const uint codes = mr_lane_codes(words, (__local const uint*)block, lane, i, j);
      const uint run = RUNS == 2 ? j : 0;
#if HALF_PRODUCTS
      mr_half_pairs(&a[j][i], &a[j][2 + i], codes,
                    mr_staged_half(stage, b, row, run) * 0x10001u);
#else
      mr_pairs(&a[j][i], &a[j][2 + i], codes, panel, mr_staged_scale(stage, b, row, run),
               AFFINE ? mr_staged_scale(stage, b, row, RUNS + run) : 0.0f);
#endif
    }
  }
}
#elif UNIT_ROWS
// Two blocks are a unit of 16 rows.
MR_GROUP_INLINE void mr_operands(uint a[2][4], __local const uint4* stage,
                                 __global const uchar* panel, uint b, uint lane) {
  MR_EACH(j, 2) mr_load_rows(a[j], stage + b / 2 * (2 * BLOCK_VECTORS), b % 2 * 4 + 2 * j, lane);
}
#else
static inline uint mr_half_pair(uint values) {
  return mr_halves(as_float(values << 16), as_float(values & 0xffff0000u));
}

MR_GROUP_INLINE void mr_operands(uint a[2][4], __local const uint4* stage,
                                 __global const uchar* panel, uint b, uint lane) {
  MR_EACH(j, 2) {
    const uint4 values = stage[b * BLOCK_VECTORS + 32 * j + lane];
    a[j][0] = mr_half_pair(values.x);
    a[j][2] = mr_half_pair(values.y);
    a[j][1] = mr_half_pair(values.z);
    a[j][3] = mr_half_pair(values.w);
  }
}
#endif
