#pragma once
// Multiplies fp32 columns by a packed matrix, on CPUs:
//
//   out[c][r] = sum over k of weight[r][k] * x[c][k]   (+ bias[r]) (+ out[c][r] before)
//
// Lanes are the 16 rows of a panel, so there is no horizontal sum. A group's only work-item owns
// consecutive panels and walks all columns in tiles:
//
//            columns c .. c+C-1 (x: scalars that are broadcast)
//            +---+---+---+
//    panel   |acc|acc|acc|   P x C accumulators of 16 rows in registers;
//    of 16   |   |   |   |   each weight is unpacked once for C multiply-adds
//    rows    +---+---+---+
//
//   arguments and order of sums as in exact_generic.cl; out_stride and out_row are multiples of
//   16; x has FLOAT_TILE readable rows after its last one, whatever they hold
//   launch   local (1), groups (any number): group g takes panels [g*panels/G, (g+1)*panels/G)
//   defines  X_STRIDE = x_stride, known at compile time so that columns cost no address registers;
//            FLOAT_TILE, the widest tile: 16, or 6 where registers hold 8 floats or fewer
// Columns are cut into equal tiles no wider than FLOAT_TILE, each rounded up to a width that was
// compiled; the results of the added columns are dropped. Tiles of up to four columns take four
// panels at once, to have enough independent sums in flight.
// Limit: fp32 multiply-adds from about 4 columns on, memory below.
#include "kv/vectors.cl"
#include "matmul/cut.cl"
#include "matmul/layout.cl"
#include "matmul/levels.cl"
#include "matmul/mode.h"

#ifndef X_STRIDE
#define X_STRIDE K
#endif
#ifndef FLOAT_TILE
#define FLOAT_TILE 6
#endif
#define MR_FLOAT_TILES(columns) MR_CEIL(columns, FLOAT_TILE)

// FLOAT_STEP is the number of columns that are unrolled: one of plain values, four of codes, a word
// of values. These are enough to hide the cost of unpacking, and no more: compiling takes long.
#if SCALE_SIZE > 0
#define FLOAT_STEP 4
#define MR_UNROLL_STEPS _Pragma("unroll 4")
#else
#define FLOAT_STEP 1
#define MR_UNROLL_STEPS _Pragma("unroll 2")
#endif

#if SCALE_SIZE > 0
typedef struct {
  float16 s[SCALES];
  int16 line;
} Scales;

static inline void mr_read_scales(Scales* s, __global const uchar* panel, uint block) {
  s->line = MR_N(mr_line)(panel);
  _Pragma("unroll") for (int i = 0; i < SCALES; ++i) s->s[i] = MR_N(mr_scale16)(panel, block, i);
}

typedef int16 Word;

static inline Word mr_word(__global const uchar* panel, const Scales* s, uint block, uint i) {
  return MR_N(mr_value4)(panel, s->line, block, i);
}

// Returns column i * FLOAT_STEP + j of the block; j is a constant after unrolling.
static inline float16 mr_value(Word word, const Scales* s, uint i, uint j) {
  const int16 code = (word >> (int16)((int)(j * 8))) & (int16)(255);
  const uint run = i * FLOAT_STEP / SCALE_BLOCK;
#if AFFINE
  return fma(s->s[run], convert_float16(code), s->s[RUNS + run]);
#else
  return s->s[run] * convert_float16(code - (int16)(OFFSET));
#endif
}
#else
typedef struct {
  int none;
} Scales;

static inline void mr_read_scales(Scales* s, __global const uchar* panel, uint block) {}

typedef float16 Word;

static inline Word mr_word(__global const uchar* panel, const Scales* s, uint block, uint i) {
  const uint k = block * 32 + i;
#if CODES == MR_F32
  return mr_load16((__global const float*)panel + k * 16);
#elif CODES == MR_F16
  return mr_half16((__global const ushort*)panel + k * 16);
#else
  return as_float16(convert_uint16(((__global const ushort16*)panel)[k]) << 16);
#endif
}

static inline float16 mr_value(Word word, const Scales* s, uint i, uint j) {
  return word;
}
#endif

#define MR_WIDEST 16  // panels times columns

// Computes `panels` panels by `columns` columns, both constants: the loops over them have to be
// unrolled. Stores the first `width` of the columns.
static inline __attribute__((always_inline)) void mr_float_tile(
    const int panels, const int columns, __global const uchar* weight, __global const float* x,
    __global float* out, __global const float* bias, uint out_stride, uint width, uint mode) {
  float16 acc[MR_WIDEST];
  MR_EACH(i, panels * columns) acc[i] = (float16)(0.0f);
  for (uint b = 0; b < K_BLOCKS; ++b) {
    Scales s[4];
    Word word[4];
    MR_EACH(p, panels) mr_read_scales(&s[p], weight + p * PANEL_BYTES, b);
    MR_UNROLL_STEPS for (uint i = 0; i < 32 / FLOAT_STEP; ++i) {
      MR_EACH(p, panels) word[p] = mr_word(weight + p * PANEL_BYTES, &s[p], b, i);
      MR_EACH(j, FLOAT_STEP) {
        float16 w[4];
        MR_EACH(p, panels) w[p] = mr_value(word[p], &s[p], i, j);
        MR_EACH(c, columns) {
          const float16 value = (float16)(x[c * X_STRIDE + b * 32 + i * FLOAT_STEP + j]);
          MR_EACH(p, panels) acc[p * columns + c] = fma(w[p], value, acc[p * columns + c]);
        }
      }
    }
  }
  MR_EACH(c, columns) MR_EACH(p, panels) {
    if (c >= width) continue;
    __global float16* to = (__global float16*)(out + (size_t)c * out_stride + p * 16);
    float16 sum = acc[p * columns + c];
    if ((mode & MODE_BIASED) != 0) sum = sum + mr_load16(bias + p * 16);
    if ((mode & MODE_ADDS) != 0) sum = sum + *to;
    *to = sum;
  }
}

// Apart from each other, the compiler gives each width its registers.
#define MR_TILE(P, C)                                                             \
  static __attribute__((noinline)) void mr_float_tile_##P##_##C(                  \
      __global const uchar* weight, __global const float* x, __global float* out, \
      __global const float* bias, uint out_stride, uint width, uint mode) {       \
    mr_float_tile(P, C, weight, x, out, bias, out_stride, width, mode);           \
  }
MR_TILE(4, 1)
MR_TILE(4, 2)
MR_TILE(4, 4)
MR_TILE(1, 1)
MR_TILE(1, 2)
MR_TILE(1, 4)
MR_TILE(1, 6)
#if FLOAT_TILE > 6
MR_TILE(1, 8)
MR_TILE(1, 10)
MR_TILE(1, 12)
MR_TILE(1, 14)
MR_TILE(1, 16)
#endif

#define MR_ARGS(p)                                                                     \
  weight + (size_t)(p) * PANEL_BYTES, x + (size_t)c * X_STRIDE,                        \
      out + (size_t)c * out_stride + (p) * 16, bias + (p) * 16, out_stride, width, mode

// Multiplies panels first to last - 1 by all columns.
static inline void mr_panels(__global const uchar* weight, __global const float* x,
                             __global float* out, __global const float* bias, uint first, uint last,
                             uint columns, uint out_stride, uint mode) {
  const uint tiles = MR_FLOAT_TILES(columns);
  for (uint t = 0; t < tiles; ++t) {
    const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
    uint p = first;
    if (width <= 4) {
      for (; p + 4 <= last; p += 4) {
        if (width == 1) {
          mr_float_tile_4_1(MR_ARGS(p));
        } else if (width == 2) {
          mr_float_tile_4_2(MR_ARGS(p));
        } else {
          mr_float_tile_4_4(MR_ARGS(p));
        }
      }
    }
    for (; p < last; ++p) {
      switch ((width + 1) / 2) {
        case 1:
          if (width == 1) {
            mr_float_tile_1_1(MR_ARGS(p));
          } else {
            mr_float_tile_1_2(MR_ARGS(p));
          }
          break;
        case 2: mr_float_tile_1_4(MR_ARGS(p)); break;
        case 3: mr_float_tile_1_6(MR_ARGS(p)); break;
#if FLOAT_TILE > 6
        case 4: mr_float_tile_1_8(MR_ARGS(p)); break;
        case 5: mr_float_tile_1_10(MR_ARGS(p)); break;
        case 6: mr_float_tile_1_12(MR_ARGS(p)); break;
        case 7: mr_float_tile_1_14(MR_ARGS(p)); break;
        case 8: mr_float_tile_1_16(MR_ARGS(p)); break;
#endif
      }
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul(__global const uchar* weight, __global const float* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint x_stride, uint out_stride,
            uint out_row, uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  mr_panels(weight, x, out + out_row, bias + out_row, mr_cut(panels, g, groups),
            mr_cut(panels, g + 1, groups), columns, out_stride, mode);
}
