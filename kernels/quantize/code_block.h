#pragma once
// A block of codes, the form in which products of the fast mode read activations. C++ and OpenCL C
// both read this file. block.cl says how a block is made. Integer products read:
//
//   words 0..7           codes, four signed bytes a word, in the order of the channels
//   word  Q_SCALE        float s, the scale: a channel is s * code
//   word  Q_SUM          float t = s * (float)(sum of the 32 codes)
//   word  Q_OFFSET       int -8 * (sum of the 32 codes)
//   word  Q_OFFSET_HALF  int -8 * (sum of the codes 0..15)

#define Q_CHANNELS 32
#define Q_WORDS 12
#define Q_SCALE 8
#define Q_SUM 9
#define Q_OFFSET 10
#define Q_OFFSET_HALF 11

// Halves, the form in which the products of NVIDIA GPUs read activations: those of H_SCALE times
// the channels. They stand as the matrix unit reads them, in panels of H_ROWS rows: of 64 channels,
// 128 bytes of each row of the panel, then of the next 64. A row's vectors of eight channels are in
// turn exchanged within the 128 bytes, so that eight rows never meet in a bank of local memory.
// H_VECTOR_AT says where vector v of a row stands, in vectors of 16 bytes, for rows of `vectors`
// vectors each, a multiple of eight.
#define H_ROWS 64
#define H_VECTOR_AT(row, v, vectors)                                                     \
  ((row) / H_ROWS * (H_ROWS * (vectors)) + (v) / 8 * (H_ROWS * 8) + (row) % H_ROWS * 8 + \
   (((v) % 8) ^ ((row) % 8)))
#define H_SCALE 0.0625f
#define H_UNIT 16.0f

// Signed bytes, the form in which products of math int8 read activations (rotate.cl), in panels of
// H_ROWS rows, too: of each group of INT8_GROUP channels, 128 bytes of each row of the panel, whose
// vectors of 16 channels are exchanged as those of halves are; behind all groups, a float for each
// row, its scale: a rotated channel is scale * code. INT8_VECTOR_AT says where vector v of a row
// stands, in vectors of 16 bytes, and INT8_SCALE_AT where the scale of a row stands, in floats, for
// rows of `groups` groups; a row has INT8_ROW_WORDS words of a panel.
#define INT8_GROUP 128
#define INT8_GROUPS(channels) (((channels) + INT8_GROUP - 1) / INT8_GROUP)
#define INT8_ROW_WORDS(groups) ((groups) * (INT8_GROUP / 4) + 1)
#define INT8_VECTOR_AT(row, v, groups)                                               \
  ((row) / H_ROWS * (H_ROWS / 4 * INT8_ROW_WORDS(groups)) + (v) / 8 * (H_ROWS * 8) + \
   (row) % H_ROWS * 8 + (((v) % 8) ^ ((row) % 8)))
#define INT8_SCALE_AT(row, groups)                                                             \
  ((row) / H_ROWS * (H_ROWS * INT8_ROW_WORDS(groups)) + (groups) * (H_ROWS * INT8_GROUP / 4) + \
   (row) % H_ROWS)

#define Q_TOGETHER 32u  // blocks are quantized together, see block.cl
// The floats that a group of the cpu family keeps for 32 gates and 32 ups of so many columns.
#define STRIP_FLOATS (Q_TOGETHER * 64)
