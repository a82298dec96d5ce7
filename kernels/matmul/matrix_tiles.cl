// Multiplies panels by columns on the matrix unit, in runs of tiles (matrix_tile.cl). A template,
// for each PRODUCT of a program (layout.cl).
//
// A panel's codes are unpacked to memory, once for all columns: the unit loads from there, and it
// would wait long for codes that were written just before.
#include "matmul/activate.cl"
#include "matmul/cut.cl"
#include "matmul/matrix_unit.cl"

#ifndef COLUMNS
#include "matmul/integer_block.cl"
#endif

#undef COLUMNS
#define COLUMNS 12
#include "matmul/matrix_tile.cl"
#undef COLUMNS
#define COLUMNS 16
#include "matmul/matrix_tile.cl"

#define MR_UNPACKED (K_BLOCKS * 8)  // the vectors of an unpacked panel
// The largest K of gate and up, whose four panels take 64 * K bytes of the stack. That of a product
// is four times as large. Beyond it columns stay with dot products.
#define MATRIX_GATED_K 16384

// Unpacks a panel to signed codes: word g of a block has its columns 4g .. 4g+3. Prefetches a panel
// that this core will probably unpack soon.
static MR_TARGET void MR_N(mr_unpack)(__global const uchar* panel, __global const uchar* next,
                                      int16* codes) {
  typedef char Bytes __attribute__((ext_vector_type(64)));
  const int16 line = MR_N(mr_line)(panel);
  for (uint b = 0; b < K_BLOCKS; ++b) {
    MR_EACH(i, WORDS) MR_EXPECT(next + CODES_AT + (b * WORDS + i) * 64);
    MR_EXPECT(next + SCALES_AT + b * SCALES * 16 * SCALE_SIZE);
    MR_EACH(g, 8) {
      const Bytes word = __builtin_astype(MR_N(mr_value4)(panel, line, b, g), Bytes);
      codes[b * 8 + g] = __builtin_astype(word - (Bytes)((char)(OFFSET)), int16);
    }
  }
}

static inline void MR_N(mr_matrix)(const Tile* tile, const int16* codes) {
  if (tile->width <= 12) {
    MR_JOINED(MR_N(mr_matrix_tile), 12)(tile, codes);
  } else {
    MR_JOINED(MR_N(mr_matrix_tile), 16)(tile, codes);
  }
}

// Does what mr_pairs of integer_tiles.cl does.
static MR_TARGET void MR_N(mr_matrix_pairs)(__global const uchar* weight, __global const int* x,
                                            __global float* out, __global const float* bias,
                                            uint panels, uint first, uint last, uint stride,
                                            uint columns, uint out_stride, uint mode) {
  const uint tiles = MR_CEIL(columns, MATRIX_TILE);
  int16 codes[MR_UNPACKED];
  mr_begin_tiles(SCALE_BLOCK);
  for (uint p = 2 * first; p < min(2 * last, panels); ++p) {
    __global const uchar* const panel = weight + (size_t)p * PANEL_BYTES;
    MR_N(mr_unpack)(panel, panel + (size_t)2 * stride * PANEL_BYTES, codes);
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      const Tile tile = {.weight = panel, .x = x + (size_t)c * X_STRIDE,
                         .out = out + (size_t)c * out_stride + p * 16, .bias = bias + p * 16,
                         .out_stride = out_stride, .width = width, .mode = mode};
      MR_N(mr_matrix)(&tile, codes);
    }
  }
  mr_end_tiles();
}

// Computes 32 gates and 32 ups of up to Q_TOGETHER columns; `codes` are those of their panels.
static inline void MR_N(mr_matrix_strip)(__global const uchar* const* panel, const int16* codes,
                                         __global const int* x, __global float* sums,
                                         __global const float* const* bias, uint columns,
                                         uint mode) {
  const uint tiles = MR_CEIL(columns, MATRIX_TILE);
  for (uint i = 0; i < 4; ++i) {
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      const Tile tile = {.weight = panel[i], .x = x + (size_t)c * X_STRIDE,
                         .out = sums + c * 64 + i * 16, .bias = bias[i],
                         .out_stride = 64, .width = width, .mode = mode};
      MR_N(mr_matrix)(&tile, codes + i * MR_UNPACKED);
    }
  }
}

#if K <= MATRIX_GATED_K
// Does what mr_gate_up of integer_tiles.cl does.
static MR_TARGET void MR_N(mr_matrix_gate_up)(__global const uchar* weight, __global const int* x,
                                              __global int* out, __global const float* bias,
                                              __global float* sums, uint panels, uint first,
                                              uint last, uint stride, uint columns,
                                              uint out_stride, uint mode) {
  const uint blocks = panels / 4;
  int16 codes[4 * MR_UNPACKED];
  mr_begin_tiles(SCALE_BLOCK);
  for (uint b = first; b < last; ++b) {
    __global const uchar* panel[4];
    __global const float* biases[4];
    for (uint i = 0; i < 4; ++i) {  // two of gate, two of up
      const uint p = 2 * b + i % 2 + i / 2 * 2 * blocks;
      panel[i] = weight + (size_t)p * PANEL_BYTES;
      biases[i] = bias + p * 16;
      MR_N(mr_unpack)(panel[i], panel[i] + (size_t)2 * stride * PANEL_BYTES,
                      codes + i * MR_UNPACKED);
    }
    for (uint c = 0; c < columns; c += Q_TOGETHER) {
      const uint width = min(Q_TOGETHER, columns - c);
      MR_N(mr_matrix_strip)(panel, codes, x + (size_t)c * X_STRIDE, sums, biases, width, mode);
      mr_activate(sums, width, out + (size_t)c * out_stride + b * Q_WORDS, out_stride);
    }
  }
  mr_end_tiles();
}
#endif
