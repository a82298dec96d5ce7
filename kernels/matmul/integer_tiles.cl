// Computes integer products on CPUs in tiles, PANELS panels of 16 rows by up to TILE columns,
// and in runs of tiles. Numeric contract: integer_generic.cl. A program has it once for each
// PRODUCT (layout.cl) that it needs.
//
// Lanes are the 16 rows of a panel: a word of codes is one operand of a dot product, a word of a
// column the other, the same for all lanes. A tile is PANELS panels by C columns; sums and block
// sums stay in registers:
//
//   for each block:  sums = -OFFSET * (sum of the column's codes)
//                    8 words x PANELS x C products                    int32, exact
//                    d (and m) of the panels from memory
//                    acc = fma(sums, d * s, acc)  (, fma(m, t, acc))  fp32
//
//   defines  K; X_STRIDE, the words of a row of x, so that columns cost no address registers;
//            DOT, see dot.cl; TILE, the widest tile
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled. The results of the added columns are dropped, and x has TILE readable rows after its
// last. Tiles take two panels where there are 32 registers, so that a word of x is loaded once for
// both; a last panel without a second is taken twice, and one result is dropped. A tile prefetches
// the panels that will probably be next, because the processor's own prefetcher ends at each page
// of 4 KB, and the lines of the sums, because the store would wait for them.
// Limit: memory up to about 4 columns, then dot products: 8 of 8 + 3 vector operations per block
// and column are products (8 of 8 + 2 where not affine).
#include "activation/gated.cl"
#include "common/prelude.cl"
#include "kv/vectors.cl"
#include "matmul/cut.cl"
#include "matmul/dot.cl"
#include "matmul/layout.cl"
#include "matmul/levels.cl"
#include "matmul/target.cl"
#include "quantize/block.cl"

#ifndef X_STRIDE
#define X_STRIDE (K_BLOCKS * Q_WORDS)
#endif
#if TILE == 5 || TILE > 6
#error "TILE is at most 4, or 6"
#endif
#ifndef MR_TILES_BEGUN
#define MR_TILES_BEGUN
// The number of tiles that are activated together.
#define STRIP (Q_TOGETHER / TILE)

// Computes the activation (activation/gated.cl) of `width` rows of 32 gates and 32 ups, in place,
// and writes the codes.
static inline void mr_activate(__global float* sums, uint width, __global int* out,
                               uint out_stride) {
  Tops tops;
  mr_no_tops(&tops);
  for (uint j = 0; j < width; j += 2) {
    __global float16* a = (__global float16*)(sums + j * 64);
    __global float16* b = (__global float16*)(sums + min(j + 1, width - 1) * 64);
    const float16 gate[4] = {a[0], a[1], b[0], b[1]}, up[4] = {a[2], a[3], b[2], b[3]};
    float16 v[4];
    mr_gate_mul4(gate, up, v);
    a[0] = v[0];
    a[1] = v[1];
    b[0] = v[2];
    b[1] = v[3];
    tops.top[j] = mr_top(v[0], v[1]);
    tops.top[j + 1] = mr_top(v[2], v[3]);
  }
  mr_scales(&tops, width);
  for (uint j = 0; j < width; ++j) {
    __global const float16* row = (__global const float16*)(sums + j * 64);
    mr_store_block(row[0], row[1], tops.scale[j], tops.inverse[j], out + (size_t)j * out_stride);
  }
}

// Prefetches exist only where the driver compiles for the processor itself. Weights go to the
// second-level cache: the first level has too few places for lines on their way.
#if defined(__x86_64__) || defined(__aarch64__)
#define MR_EXPECT(p) __builtin_prefetch((const void*)(size_t)(p), 0, 2)
#define MR_EXPECT_WRITE(p) __builtin_prefetch((const void*)(size_t)(p), 1, 3)
#else
#define MR_EXPECT(p)
#define MR_EXPECT_WRITE(p)
#endif
#endif

// -8 * the sum of x's codes over a run of a block.
static inline MR_TARGET_INLINE int MR_N(mr_run_offset)(__global const int* x, int run) {
#if RUNS == 1
  return x[Q_OFFSET];
#else
  const int first = x[Q_OFFSET_HALF];
  return run == 0 ? first : x[Q_OFFSET] - first;
#endif
}

// -OFFSET * the sum of x's codes over a run.
static inline MR_TARGET_INLINE int16 MR_N(mr_initial)(__global const int* x, int run) {
#if OFFSET == 0
  return (int16)(0);
#else
  return (int16)(MR_N(mr_run_offset)(x, run)) * (int16)(OFFSET / 8);
#endif
}

// t of a run.
static inline MR_TARGET_INLINE float MR_N(mr_run_sum)(__global const int* x, int run) {
#if RUNS == 1
  return as_float(x[Q_SUM]);
#else
  return as_float(x[Q_SCALE]) * (float)(-(MR_N(mr_run_offset)(x, run) >> 3));  // a multiple of 8
#endif
}

// The form of sums (dot.cl).
#undef MR_FORM
#if (DOT == 1 || DOT == 2) && (CODES > 4 || CODE_LEVELS)
#define MR_FORM(name) name##_split
#else
#define MR_FORM(name) name##_whole
#endif

#define MR_EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)

// Tiles of two panels, where registers hold twice the sums.
#undef PANELS
#if DOT >= 2
#define PANELS 2
#else
#define PANELS 1
#endif

// Computes C columns of which `width` are wanted, and PANELS panels of which `panels` are: `weight`
// and `second`.
#define MR_TILE(C)                                                                                \
  static MR_TARGET void MR_N(mr_tile_##C)(                                                        \
      __global const uchar* weight, __global const uchar* second, __global const uchar* next,     \
      __global const int* x, __global float* out, __global const float* bias, uint out_stride,    \
      uint panels, uint width, uint mode) {                                                       \
    MR_EACH(c, C) MR_EACH(p, PANELS) MR_EXPECT_WRITE(out + (size_t)c * out_stride + p * 16);      \
    float16 acc[PANELS * (C)];                                                                    \
    MR_EACH(i, PANELS * (C)) acc[i] = (float16)(0.0f);                                            \
    int16 line[PANELS];                                                                           \
    MR_EACH(p, PANELS) line[p] = MR_N(mr_line)(p == 0 ? weight : second);                         \
    for (uint b = 0; b < K_BLOCKS; ++b) {                                                         \
      MR_EACH(p, PANELS) {                                                                        \
        __global const uchar* panel = next + p * PANEL_BYTES;                                     \
        MR_EACH(i, WORDS) MR_EXPECT(panel + CODES_AT + (b * WORDS + i) * 64);                     \
        MR_EXPECT(panel + SCALES_AT + b * SCALES * 16 * SCALE_SIZE);                              \
      }                                                                                           \
      MR_EACH(h, RUNS) {                                                                          \
        MR_FORM(Sum) sum[PANELS * (C)];                                                           \
        MR_EACH(c, C) MR_EACH(p, PANELS)                                                          \
            sum[p * (C) + c] = MR_FORM(mr_sum_start)(MR_N(mr_initial)(x + c * X_STRIDE, h));      \
        MR_EACH(i, 8 / RUNS) {                                                                    \
          const int g = h * (8 / RUNS) + i;                                                       \
          MR_FORM(Code) code[PANELS];                                                             \
          MR_EACH(p, PANELS) {                                                                    \
            code[p] = MR_FORM(mr_code_of)(                                                        \
                MR_N(mr_value4)(p == 0 ? weight : second, line[p], b, g));                        \
          }                                                                                       \
          MR_EACH(c, C) {                                                                         \
            const int column = x[c * X_STRIDE + g];                                               \
            MR_EACH(p, PANELS)                                                                    \
                sum[p * (C) + c] = MR_FORM(mr_products)(sum[p * (C) + c], code[p], column);       \
          }                                                                                       \
        }                                                                                         \
        MR_EACH(p, PANELS) {                                                                      \
          const float16 d = MR_N(mr_scale16)(p == 0 ? weight : second, b, h);                     \
          MR_EACH(c, C) {                                                                         \
            const float16 scale = d * (float16)(as_float(x[c * X_STRIDE + Q_SCALE]));             \
            const int16 total = MR_FORM(mr_sum_total)(                                            \
                sum[p * (C) + c], MR_N(mr_initial)(x + c * X_STRIDE, h));                         \
            acc[p * (C) + c] = fma(convert_float16(total), scale, acc[p * (C) + c]);              \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
      if (AFFINE) MR_EACH(h, RUNS) MR_EACH(p, PANELS) {                                           \
        const float16 m = MR_N(mr_scale16)(p == 0 ? weight : second, b, RUNS + h);                \
        MR_EACH(c, C) acc[p * (C) + c] =                                                          \
            fma(m, (float16)(MR_N(mr_run_sum)(x + c * X_STRIDE, h)), acc[p * (C) + c]);           \
      }                                                                                           \
      x += Q_WORDS;                                                                               \
    }                                                                                             \
    MR_EACH(c, C) {                                                                               \
      if (c < width) {                                                                            \
        MR_EACH(p, PANELS) {                                                                      \
          if (p < panels) {                                                                       \
            __global float16* to = (__global float16*)(out + (size_t)c * out_stride + p * 16);    \
            float16 total = acc[p * (C) + c];                                                     \
            if ((mode & 2) != 0) total = total + *(__global const float16*)(bias + p * 16);       \
            if ((mode & 1) != 0) total = total + *to;                                             \
            *to = total;                                                                          \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }

MR_TILE(1)
MR_TILE(2)
MR_TILE(4)
#if TILE >= 6
#if PANELS == 2
MR_TILE(5)
#endif
MR_TILE(6)
#endif

// Computes one or two panels by up to TILE columns; `next` will be read after them.
static inline void MR_N(mr_panels)(__global const uchar* weight, __global const uchar* next,
                                   __global const int* x, __global float* out,
                                   __global const float* bias, uint out_stride, uint panels,
                                   uint width, uint mode) {
  for (uint p = 0; p < panels; p += PANELS) {
    const uint count = min(panels - p, (uint)PANELS);
    __global const uchar* second = count == 2 ? weight + PANEL_BYTES : weight;
#define MR_ARGS weight, second, next, x, out, bias, out_stride, count, width, mode
    switch (width) {
      case 1: MR_N(mr_tile_1)(MR_ARGS); break;
      case 2: MR_N(mr_tile_2)(MR_ARGS); break;
#if TILE < 6
      default: MR_N(mr_tile_4)(MR_ARGS); break;
#else
      case 3:
      case 4: MR_N(mr_tile_4)(MR_ARGS); break;
#if PANELS == 2
      case 5: MR_N(mr_tile_5)(MR_ARGS); break;
#endif
      default: MR_N(mr_tile_6)(MR_ARGS); break;
#endif
    }
#undef MR_ARGS
    weight += PANELS * PANEL_BYTES;
    next += PANELS * PANEL_BYTES;
    out += PANELS * 16;
    bias += PANELS * 16;
  }
}

// The pairs of panels that one walk over all columns takes: as many as stay in the second-level
// cache meanwhile; an even number.
#define CHUNK_BYTES (128 * 1024)
#define CHUNK_PAIRS (PANEL_BYTES * 8 > CHUNK_BYTES ? 2 : CHUNK_BYTES / PANEL_BYTES / 4 * 2)

// The panels to prefetch during tile t: those that come next, when a walk meets them for the first
// time. Later they are in the second-level cache, where a prefetch pays for few columns only.
#ifndef MR_NEXT
#define MR_NEXT(at) (t == 0 || tiles <= 4 ? (at) + 2 * stride * PANEL_BYTES : (at))
#endif

// Multiplies pairs of panels first to last - 1 by all columns. The panels that this core will read
// next lie `stride` pairs further on. With a constant number of column tiles and a bound on columns
// the compiler leaves out the widths that cannot occur.
static inline void MR_N(mr_pairs)(__global const uchar* weight, __global const int* x,
                                  __global float* out, __global const float* bias, uint panels,
                                  uint first, uint last, uint stride, uint columns, uint tiles,
                                  uint out_stride, uint mode) {
  for (uint chunk = first; chunk < last; chunk += CHUNK_PAIRS) {
    const uint end = min(last, (uint)(chunk + CHUNK_PAIRS));
    for (uint t = 0; t < tiles; ++t) {
      const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
      for (uint pair = chunk; pair < end; ++pair) {
        const uint p = 2 * pair;
        __global const uchar* at = weight + (size_t)p * PANEL_BYTES;
        MR_N(mr_panels)(at, MR_NEXT(at), x + (size_t)c * X_STRIDE,
                        out + (size_t)c * out_stride + p * 16, bias + p * 16, out_stride,
                        min(panels - p, 2u), width, mode);
      }
    }
  }
}

// Does the same for gate and up, 32 channels of both at a time, and writes the codes of their
// activation for blocks first to last - 1; `sums` has STRIP_FLOATS floats for the group alone.
static inline void MR_N(mr_gate_up)(__global const uchar* weight, __global const int* x,
                                    __global int* out, __global const float* bias,
                                    __global float* sums, uint panels, uint first, uint last,
                                    uint stride, uint columns, uint tiles, uint out_stride,
                                    uint mode) {
  const uint blocks = panels / 4;
  for (uint chunk = first; chunk < last; chunk += CHUNK_PAIRS / 2) {
    const uint end = min(last, (uint)(chunk + CHUNK_PAIRS / 2));
    for (uint strip = 0; strip < tiles; strip += STRIP) {
      const uint strip_end = min(tiles, strip + STRIP), begin = mr_cut(columns, strip, tiles);
      for (uint b = chunk; b < end; ++b) {
        for (uint t = strip; t < strip_end; ++t) {
          const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
          for (uint i = 0; i < 2; ++i) {  // gate, then up
            const uint p = 2 * b + i * 2 * blocks;
            __global const uchar* at = weight + (size_t)p * PANEL_BYTES;
            MR_N(mr_panels)(at, MR_NEXT(at), x + (size_t)c * X_STRIDE,
                            sums + (c - begin) * 64 + i * 32, bias + p * 16, 64, 2, width, mode);
          }
        }
        mr_activate(sums, mr_cut(columns, strip_end, tiles) - begin,
                    out + (size_t)begin * out_stride + b * Q_WORDS, out_stride);
      }
    }
  }
}
