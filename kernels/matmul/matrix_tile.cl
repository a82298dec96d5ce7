// Computes a tile of an integer product on the matrix unit of processors with AMX: a panel of 16
// rows by COLUMNS columns, at most 16. A template, for each PRODUCT of a program (layout.cl) and
// each number of columns. Numeric contract: integer_generic.cl. The sums of a run are exact here,
// too, so the bits are those of integer_tile.cl.
//
//   for each run:  A = the columns' codes       [16][SCALE_BLOCK] bytes
//                  B = the panel's codes        [SCALE_BLOCK / 4][16 rows][4] bytes
//                  C = A x B                    [16][16 rows] int32, exact
//                  acc = fma(C, d * s, acc)     fp32, a vector for each column
//   where affine:  acc = fma(m, t, acc)
//
// A has 16 columns even where the tile has fewer: x has 16 readable rows after its last.
// Limit: what the unit does not do, 3 vector operations for a run of a column (4 where affine), and
// the way of C through memory. A block of 16 columns takes 28 ns on a core of a Granite Rapids: 12
// the unit with its loads and stores, 9 the vector operations, and they do not overlap. Dot
// products (integer_tile.cl) take 42.
#include "matmul/matrix_unit.cl"

#ifndef COLUMNS
#define COLUMNS 16
#include "matmul/integer_block.cl"
#endif

#define MR_T(name) MR_JOINED(MR_N(name), COLUMNS)

// Adds run `h` of block `b` to acc[column], of the columns from x on.
static inline MR_TARGET_INLINE void MR_T(mr_matrix_run)(const Tile* tile, const int16* codes,
                                                        __global const int* x, uint b, int h,
                                                        int16* sums, float16* acc) {
  const int g = h * (8 / RUNS);
  mr_multiply_tiles(x + g, X_STRIDE * 4, codes + b * 8 + g, sums);
  const float16 d = MR_N(mr_scale16)(tile->weight, b, h);
  MR_EACH(c, COLUMNS) {
    const float16 scale = d * (float16)(as_float(x[c * X_STRIDE + Q_SCALE]));
    acc[c] = fma(convert_float16(sums[c]), scale, acc[c]);
  }
}

// Adds the m of block b times the sums of its columns.
static inline MR_TARGET_INLINE void MR_T(mr_matrix_mins)(const Tile* tile, __global const int* x,
                                                         uint b, float16* acc) {
  MR_EACH(h, RUNS) {
    const float16 m = MR_N(mr_scale16)(tile->weight, b, RUNS + h);
    MR_EACH(c, COLUMNS) {
      acc[c] = fma(m, (float16)(MR_N(mr_run_sum)(x + c * X_STRIDE, h)), acc[c]);
    }
  }
}

// `codes` are those of the panel tile->weight, unpacked (matrix_tiles.cl).
static MR_TARGET void MR_T(mr_matrix_tile)(const Tile* tile, const int16* codes) {
  MR_EACH(c, COLUMNS) MR_EXPECT_WRITE(tile->out + (size_t)c * tile->out_stride);
  int16 sums[16];
  float16 acc[COLUMNS];
  MR_EACH(c, COLUMNS) acc[c] = (float16)(0.0f);
  __global const int* x = tile->x;
  for (uint b = 0; b < K_BLOCKS; ++b) {
    MR_EACH(h, RUNS) MR_T(mr_matrix_run)(tile, codes, x, b, h, sums, acc);
    if (AFFINE) MR_T(mr_matrix_mins)(tile, x, b, acc);
    x += Q_WORDS;
  }
  MR_EACH(c, COLUMNS) {
    if (c < tile->width) mr_put(tile, c, 0, acc[c]);
  }
}
