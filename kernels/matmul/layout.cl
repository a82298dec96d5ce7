#pragma once
// The layout of a weight matrix [rows, K] in memory: panels of 16 rows, for every type of tensor.
//
//   panel p holds rows 16p .. 16p+15; missing rows and columns are zero; K is padded to 32s.
//
//   plain values   F32: [K][16] float; F16, BF16: [K][16] ushort
//   codes          scales [K/32][S][16] half or float, then words [K/32][CODES][16] uint
//   levels         CODE_LEVELS 1: 64 bytes, 16 levels plus 128, four times; then as codes
//
//     CODES 2: byte z of word i holds columns 16i+z, 16i+4+z, 16i+8+z, 16i+12+z, low bits first
//     CODES 4: byte z of word i holds column 8i+z in its low bits, column 8i+4+z in its high
//     CODES 8: byte z of word i holds column 4i+z
//
//     weight = d * (code - OFFSET)
//     weight = fma(d, code, m)             AFFINE 1, OFFSET 0
//     weight = d * (line[code] - OFFSET)   CODE_LEVELS 1, CODES 4, OFFSET 128
//
//     SCALE_BLOCK columns share a d and an m. S counts first the d of a block, then its m: one of
//     each for SCALE_BLOCK 32, two for SCALE_BLOCK 16 (columns 0..15 and 16..31).
//
//   So a word of 16 rows is one vector, and each of its lanes is four neighbouring columns, the
//   form that integer dot products take. Scales and codes begin at multiples of 64 bytes. A weight
//   is exactly the value that the file defines: products of scale and code are exact in fp32, so
//   one fma rounds once, as a multiply and an add do.
//
// Defines: CODES 0 (F32), 1 (F16), 3 (BF16), 2, 4 or 8; OFFSET; AFFINE; CODE_LEVELS; SCALE_SIZE 2
// (half) or 4 (float) bytes; SCALE_BLOCK; K, the padded number of columns.
#ifndef CODES  // Q4_0
#define CODES 4
#define OFFSET 8
#define AFFINE 0
#define CODE_LEVELS 0
#define SCALE_SIZE 2
#define SCALE_BLOCK 32
#endif
#ifndef K
#define K 256
#endif

#define MR_F32 0
#define MR_F16 1
#define MR_BF16 3

#define K_BLOCKS (K / 32)
#if CODES == 2 || CODES == 4 || CODES == 8
#define WORDS CODES  // 32 columns of so many bits
#endif
#ifdef WORDS
#define PARTS (8 / WORDS)  // words of four columns in a word
#define PART_MASK (0x01010101u * ((1 << CODES) - 1))
#define RUNS (32 / SCALE_BLOCK)  // runs of a block's columns that share a scale
#define SCALES ((1 + AFFINE) * RUNS)
#define SCALES_AT (CODE_LEVELS * 64)
#define CODES_AT (SCALES_AT + (K_BLOCKS * SCALES * 16 * SCALE_SIZE + 63) / 64 * 64)
#define PANEL_BYTES (CODES_AT + K_BLOCKS * WORDS * 64)
#elif CODES == MR_F32
#define PANEL_BYTES (K * 64)
#else
#define PANEL_BYTES (K * 32)
#endif

// mr_weight reads one weight, row 0..15 of a panel and column k, for code that needs few of them.
#ifdef WORDS
static inline float mr_scale(__global const uchar* panel, uint row, uint block, uint i) {
  const uint at = (block * SCALES + i) * 16 + row;
  panel += SCALES_AT;
#if SCALE_SIZE == 2
  return vload_half(at, (__global const half*)panel);
#else
  return ((__global const float*)panel)[at];
#endif
}

static inline int mr_code(__global const uchar* panel, uint row, uint k) {
  __global const uchar* block = panel + CODES_AT + k / 32 * (WORDS * 64) + row * 4;
  const uint byte = block[k % 32 / (4 * PARTS) * 64 + k % 4];
  const uint code = byte >> k / 4 % PARTS * CODES & ((1 << CODES) - 1);
  return (int)(CODE_LEVELS ? panel[code] : code);
}
#endif

static inline float mr_weight(__global const uchar* panel, uint row, uint k) {
#if CODES == MR_F32
  return ((__global const float*)panel)[k * 16 + row];
#elif CODES == MR_F16
  return vload_half(k * 16 + row, (__global const half*)panel);
#elif CODES == MR_BF16
  return as_float((uint)((__global const ushort*)panel)[k * 16 + row] << 16);
#else
  const float code = (float)(mr_code(panel, row, k) - OFFSET);
  const uint run = k % 32 / SCALE_BLOCK;
#if AFFINE
  return fma(mr_scale(panel, row, k / 32, run), code, mr_scale(panel, row, k / 32, RUNS + run));
#else
  return mr_scale(panel, row, k / 32, run) * code;
#endif
#endif
}
