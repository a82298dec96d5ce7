// Computes a tile of an integer product on CPUs: PANELS panels of 16 rows by COLUMNS columns. A
// template, for each PRODUCT of a program (layout.cl) and each number of columns. Numeric contract:
// integer_generic.cl.
//
// Lanes are the 16 rows of a panel: a word of codes is one operand of a dot product, a word of a
// column the other, the same for all lanes. Sums and block sums stay in registers:
//
//   for each block:  sums = -OFFSET * (sum of the column's codes)
//                    8 words x PANELS x COLUMNS products              int32, exact
//                    d (and m) of the panels from memory
//                    acc = fma(sums, d * s, acc)  (, fma(m, t, acc))  fp32
//
//   defines  K; X_STRIDE, the words of a row of x, so that columns cost no address registers;
//            DOT, see dot.cl; TILE, the widest tile
// A tile has two panels where there are 32 registers, so that a word of x is loaded once for both.
// It prefetches the panels that will probably be next, because the processor's own prefetcher ends
// at each page of 4 KB, and the lines of the sums, because the store would wait for them. COLUMNS
// is a number, not an argument: with an argument the compiler unrolls the loops before it knows the
// number, and the sums leave their registers.
// Limit: memory up to about 4 columns, then dot products: 8 of 8 + 3 vector operations per block
// and column are products (8 of 8 + 2 where not affine).
#ifndef COLUMNS
#define COLUMNS 4
#include "matmul/integer_block.cl"
#endif

#define MR_T(name) MR_JOINED(MR_N(name), COLUMNS)

// Adds run `h` of block `b` to acc[panel][column], of the columns from x on.
static inline MR_TARGET_INLINE void MR_T(mr_add_run)(const Tile* tile, const int16* line,
                                                     __global const int* x, uint b, int h,
                                                     float16* acc) {
  MR_FORM(Sum) sum[PANELS * COLUMNS];
  MR_EACH(c, COLUMNS) MR_EACH(p, PANELS) {
    sum[p * COLUMNS + c] = MR_FORM(mr_sum_start)(MR_N(mr_initial)(x + c * X_STRIDE, h));
  }
  MR_EACH(i, 8 / RUNS) {
    const int g = h * (8 / RUNS) + i;
    MR_FORM(Code) code[PANELS];
    MR_EACH(p, PANELS) {
      code[p] = MR_FORM(mr_code_of)(MR_N(mr_value4)(MR_PANEL(p), line[p], b, g));
    }
    MR_EACH(c, COLUMNS) {
      const int word = x[c * X_STRIDE + g];
      MR_EACH(p, PANELS) {
        sum[p * COLUMNS + c] = MR_FORM(mr_products)(sum[p * COLUMNS + c], code[p], word);
      }
    }
  }
  MR_EACH(p, PANELS) {
    const float16 d = MR_N(mr_scale16)(MR_PANEL(p), b, h);
    MR_EACH(c, COLUMNS) {
      const float16 scale = d * (float16)(as_float(x[c * X_STRIDE + Q_SCALE]));
      const int16 initial = MR_N(mr_initial)(x + c * X_STRIDE, h);
      const int16 total = MR_FORM(mr_sum_total)(sum[p * COLUMNS + c], initial);
      acc[p * COLUMNS + c] = fma(convert_float16(total), scale, acc[p * COLUMNS + c]);
    }
  }
}

// Adds the m of block b times the sums of its columns.
static inline MR_TARGET_INLINE void MR_T(mr_add_mins)(const Tile* tile, __global const int* x,
                                                      uint b, float16* acc) {
  MR_EACH(h, RUNS) MR_EACH(p, PANELS) {
    const float16 m = MR_N(mr_scale16)(MR_PANEL(p), b, RUNS + h);
    MR_EACH(c, COLUMNS) {
      const float16 sum = (float16)(MR_N(mr_run_sum)(x + c * X_STRIDE, h));
      acc[p * COLUMNS + c] = fma(m, sum, acc[p * COLUMNS + c]);
    }
  }
}

static MR_TARGET void MR_T(mr_tile)(const Tile* tile) {
  MR_EACH(c, COLUMNS) MR_EACH(p, PANELS) {
    MR_EXPECT_WRITE(tile->out + (size_t)c * tile->out_stride + p * 16);
  }
  float16 acc[PANELS * COLUMNS];
  MR_EACH(i, PANELS * COLUMNS) acc[i] = (float16)(0.0f);
  int16 line[PANELS];
  MR_EACH(p, PANELS) line[p] = MR_N(mr_line)(MR_PANEL(p));
  __global const int* x = tile->x;
  for (uint b = 0; b < K_BLOCKS; ++b) {
    MR_EACH(p, PANELS) {
      __global const uchar* next = tile->next + p * PANEL_BYTES;
      MR_EACH(i, WORDS) MR_EXPECT(next + CODES_AT + (b * WORDS + i) * 64);
      MR_EXPECT(next + SCALES_AT + b * SCALES * 16 * SCALE_SIZE);
    }
    MR_EACH(h, RUNS) MR_T(mr_add_run)(tile, line, x, b, h, acc);
    if (AFFINE) MR_T(mr_add_mins)(tile, x, b, acc);
    x += Q_WORDS;
  }
  MR_EACH(c, COLUMNS) MR_EACH(p, PANELS) {
    if (c < tile->width && p < tile->panels) mr_put(tile, c, p, acc[p * COLUMNS + c]);
  }
}
