#pragma once
// The layout of a weight matrix [rows, K] in memory: panels of 16 rows, for every type of tensor.
//
//   panel p holds rows 16p .. 16p+15; missing rows and columns are zero; K is padded to 32s.
//
//   plain values   F32: [K][16] float; F16, BF16: [K][16] ushort
//   codes          scales, then words [K/32][CODES][16] uint
//   levels         CODE_LEVELS 1: 64 bytes, 16 levels plus 128, four times; then as codes
//
//     CODES 2: byte z of word i holds columns 16i+z, 16i+4+z, 16i+8+z, 16i+12+z, low bits first
//     CODES 4: byte z of word i holds column 8i+z in its low bits, column 8i+4+z in its high
//     CODES 5: four words as for CODES 4 hold the low four bits; bit g of byte z of the fifth is
//              the high bit of column 4g+z
//     CODES 6: four words as for CODES 4 hold the low four bits; bits 2g and 2g+1 of byte z of
//              word 4+j are the high bits of column 16j+4g+z
//     CODES 8: byte z of word i holds column 4i+z
//
//   scales, by SCALE_SIZE
//     4, 2   [K/32][S][16] float or half
//     1      [K/32][S][16] char, then [K/256][1 + AFFINE][16] half: a d is the product of a char
//            and the first half of its 256 columns, an m that of a char and the second
//
//     weight = d * (code - OFFSET)
//     weight = fma(d, code, m)             AFFINE 1, OFFSET 0
//     weight = d * (line[code] - OFFSET)   CODE_LEVELS 1, CODES 4, OFFSET 128
//     weight = d / 8 * float(code)         CODE_FLOATS 1, CODES 4, SCALE_SIZE 2
//
//     Such a float has one bit of sign, two of exponent and one of fraction. A d of 2^16, which is
//     a scale of 2^13, is infinite.
//
//     SCALE_BLOCK columns share a d and an m. S counts first the d of a block, then its m: one of
//     each for SCALE_BLOCK 32, two for SCALE_BLOCK 16 (columns 0..15 and 16..31).
//
//   bytes          CODES 9, of math int8: see kernels/matmul/int8_panel.h
//
//   With LANES 1 the numbers of a block stand as the lanes of a warp take them for the matrix unit
//   of NVIDIA GPUs (operands.cl). Column 16j + 2t + 8h + z of a block, with t below 4 and j, h, z
//   below 2, is then at place 8t + 4j + 2h + z, and places replace columns in the rules for CODES
//   above. A lane 4g + t has the rows g + 8i, i below 2:
//     BF16          [K/32][j][lane][i][4] ushort, the places 8t + 4j and on
//     CODES 8       words [K/32][lane][j][i], word 2t + j of row g + 8i
//     CODES 4 to 6  words [K/32][lane][i], word t of row g + 8i; then the words of high bits, which
//                   stay rows of 16; so do the words of CODES 2
//
//     F16           [K/64][16][8] vectors of eight columns, as the unit reads them from local
//                   memory by itself: vector v of row r is at v ^ (r % 8), columns stay columns,
//                   and K is padded to 64s
//
//   Otherwise a word of 16 rows is one vector, and each of its lanes is four neighbouring columns,
//   the form that integer dot products take.
//
//   Scales and codes begin at multiples of 64 bytes. A weight is exactly the value that the file
//   defines: products of scale and code are exact in fp32, so one fma rounds once, as a multiply
//   and an add do; so are products of a char and a half.
//
// Defines: CODES 0 (F32), 1 (F16), 3 (BF16), 2, 4, 5, 6, 8 or 9 (bytes); OFFSET; AFFINE;
// CODE_LEVELS; CODE_FLOATS; SCALE_SIZE, 0 without codes; SCALE_BLOCK; LANES; K, the padded number
// of columns. A program that multiplies matrices of several formats or depths gives them to each
// part that multiplies (integer_tiles.cl), with PRODUCT to number the parts: MR_N(mr_pairs) is
// mr_pairs_0.
#include "common/prelude.cl"
#include "quantize/code_block.h"
// After code_block.h.
#include "matmul/int8_panel.h"

#ifndef CODES  // Q4_0
#define CODES 4
#define OFFSET 8
#define AFFINE 0
#define CODE_LEVELS 0
#define SCALE_SIZE 2
#define SCALE_BLOCK 32
#endif
#ifndef CODE_FLOATS
#define CODE_FLOATS 0
#endif
#ifndef K
#define K 256
#endif
#ifndef LANES
#define LANES 0
#endif
#ifndef PRODUCT
#define PRODUCT 0
#endif
#define MR_N(name) MR_JOINED(name, PRODUCT)

#define MR_F32 0
#define MR_F16 1
#define MR_BF16 3
#define MR_BYTES (CODES == 9)

#define K_BLOCKS (K / 32)
#define WORDS CODES  // of a block: 32 columns of so many bits
#define LOW_BITS (CODES == 5 || CODES == 6 ? 4 : CODES)
#define HIGH_BITS (CODES - LOW_BITS)
#define RUNS (32 / SCALE_BLOCK)  // runs of a block's columns that share a scale
#define SCALES ((1 + AFFINE) * RUNS)
#define SCALES_AT (CODE_LEVELS * 64)
#define HALVES_AT (SCALES_AT + K_BLOCKS * SCALES * 16)
#define SCALE_BYTES \
  (K_BLOCKS * SCALES * 16 * SCALE_SIZE + (SCALE_SIZE == 1 ? K / 256 * (1 + AFFINE) * 32 : 0))
#define CODES_AT (SCALES_AT + (SCALE_BYTES + 63) / 64 * 64)
// Whether rows stand as the unit reads them.
#define UNIT_ROWS (LANES && SCALE_SIZE == 0 && CODES == MR_F16)
#define PANEL_BYTES                                      \
  (MR_BYTES         ? INT8_PANEL_BYTES(INT8_GROUPS(K))   \
   : SCALE_SIZE > 0 ? CODES_AT + K_BLOCKS * WORDS * 64   \
                    : (UNIT_ROWS ? (K + 63) / 64 * 64 : K) * (CODES == MR_F32 ? 64 : 32))

// Where column k of a block stands.
#define MR_PLACE(k) (LANES ? (k) % 8 / 2 * 8 + (k) / 16 * 4 + (k) % 16 / 8 * 2 + (k) % 2 : (k))
// Where word i of a row stands among the words of a block.
#if LANES && LOW_BITS >= 4
#define LANE_WORDS (LOW_BITS / 4)  // of a row
#define MR_WORD_AT(i, row)                                                                       \
  ((i) < 4 * LANE_WORDS                                                                          \
       ? (((row) % 8 * 4 + (i) / LANE_WORDS) * LANE_WORDS + (i) % LANE_WORDS) * 2 + (row) / 8     \
       : (i) * 16 + (row))
#else
#define MR_WORD_AT(i, row) ((i) * 16 + (row))
#endif

// The float of a code of 4 bits, doubled, with CODE_FLOATS.
#define MR_CODE_FLOAT(code) \
  ((float)((int)(0xc8643210u >> ((code) % 8 * 4) & 15u) * ((code) < 8 ? 1 : -1)))

// The codes of places 4g .. 4g+3 of a block, one a byte, of type T; word(i) is the block's word i.
#define MR_FIELD(T, word, at, bits) \
  ((word) >> (T)((at) % 8) & (T)(0x01010101u * ((1 << (bits)) - 1)))
#define MR_LOW_CODES(T, word, g) MR_FIELD(T, word((g) * LOW_BITS / 8), (g) * LOW_BITS, LOW_BITS)
#define MR_HIGH_CODES(T, word, g) \
  (MR_FIELD(T, word(4 + (g) * HIGH_BITS / 8), (g) * HIGH_BITS, HIGH_BITS) << (T)(4))
