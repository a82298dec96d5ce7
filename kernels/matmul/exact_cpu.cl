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
//   16; x has TILE readable rows after its last one, whatever they hold
//   launch   local (1), groups (any number): group g takes panels [g*panels/G, (g+1)*panels/G)
//   defines  X_STRIDE = x_stride, known at compile time so that columns cost no address registers;
//            TILE, the widest tile: 16, or 6 where registers hold 8 floats or fewer
// Columns are cut into equal tiles no wider than TILE, each rounded up to a width that was
// compiled; the results of the added columns are dropped. Tiles of up to four columns take four
// panels at once, to have enough independent sums in flight.
// Limit: fp32 multiply-adds from about 4 columns on, memory below.
#include "kv/vectors.cl"
#include "matmul/cut.cl"
#include "matmul/layout.cl"
#include "matmul/levels.cl"

#ifndef X_STRIDE
#define X_STRIDE K
#endif

// STEP is the number of columns that are unrolled: one of plain values, four of codes, a word of
// values. These are enough to hide the cost of unpacking, and no more: compiling takes long.
#if SCALE_SIZE > 0
#define STEP 4
#define MR_UNROLL_STEPS _Pragma("unroll 4")
#else
#define STEP 1
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

// Returns column i * STEP + j of the block; j is a constant after unrolling.
static inline float16 mr_value(Word word, const Scales* s, uint i, uint j) {
  const int16 code = (word >> (int16)((int)(j * 8))) & (int16)(255);
  const uint run = i * STEP / SCALE_BLOCK;
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

// Computes P panels by C columns, and stores the first `width` of them.
#define MR_TILE(P, C)                                                                             \
  static inline void mr_tile_##P##_##C(__global const uchar* weight, __global const float* x,     \
                                       __global float* out, __global const float* bias,           \
                                       uint out_stride, uint width, uint mode) {                  \
    float16 acc[(P) * (C)];                                                                       \
    _Pragma("unroll") for (int i = 0; i < (P) * (C); ++i) acc[i] = (float16)(0.0f);               \
    for (uint b = 0; b < K_BLOCKS; ++b) {                                                         \
      Scales s[P];                                                                                \
      Word word[P];                                                                               \
      _Pragma("unroll") for (int p = 0; p < (P); ++p)                                             \
          mr_read_scales(&s[p], weight + p * PANEL_BYTES, b);                                     \
      MR_UNROLL_STEPS for (uint i = 0; i < 32 / STEP; ++i) {                                      \
        _Pragma("unroll") for (int p = 0; p < (P); ++p)                                           \
            word[p] = mr_word(weight + p * PANEL_BYTES, &s[p], b, i);                             \
        _Pragma("unroll") for (uint j = 0; j < STEP; ++j) {                                       \
          float16 w[P];                                                                           \
          _Pragma("unroll") for (int p = 0; p < (P); ++p) w[p] = mr_value(word[p], &s[p], i, j);  \
          _Pragma("unroll") for (int c = 0; c < (C); ++c) {                                       \
            const float16 value = (float16)(x[c * X_STRIDE + b * 32 + i * STEP + j]);             \
            _Pragma("unroll") for (int p = 0; p < (P); ++p)                                       \
                acc[p * (C) + c] = fma(w[p], value, acc[p * (C) + c]);                            \
          }                                                                                       \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
    _Pragma("unroll") for (int c = 0; c < (C); ++c) {                                             \
      if (c < width) {                                                                            \
        _Pragma("unroll") for (int p = 0; p < (P); ++p) {                                         \
          __global float16* to = (__global float16*)(out + (size_t)c * out_stride + p * 16);      \
          float16 sum = acc[p * (C) + c];                                                         \
          if ((mode & 2) != 0) sum = sum + mr_load16(bias + p * 16);                              \
          if ((mode & 1) != 0) sum = sum + *to;                                                   \
          *to = sum;                                                                              \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }

MR_TILE(4, 1)
MR_TILE(4, 2)
MR_TILE(4, 4)
MR_TILE(1, 1)
MR_TILE(1, 2)
MR_TILE(1, 4)
MR_TILE(1, 6)
#if TILE > 6
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
  const uint tiles = (columns + TILE - 1) / TILE;
  for (uint t = 0; t < tiles; ++t) {
    const uint c = mr_cut(columns, t, tiles), width = mr_cut(columns, t + 1, tiles) - c;
    uint p = first;
    if (width <= 4) {
      for (; p + 4 <= last; p += 4) {
        if (width == 1) {
          mr_tile_4_1(MR_ARGS(p));
        } else if (width == 2) {
          mr_tile_4_2(MR_ARGS(p));
        } else {
          mr_tile_4_4(MR_ARGS(p));
        }
      }
    }
    for (; p < last; ++p) {
      switch ((width + 1) / 2) {
        case 1:
          if (width == 1) {
            mr_tile_1_1(MR_ARGS(p));
          } else {
            mr_tile_1_2(MR_ARGS(p));
          }
          break;
        case 2: mr_tile_1_4(MR_ARGS(p)); break;
        case 3: mr_tile_1_6(MR_ARGS(p)); break;
#if TILE > 6
        case 4: mr_tile_1_8(MR_ARGS(p)); break;
        case 5: mr_tile_1_10(MR_ARGS(p)); break;
        case 6: mr_tile_1_12(MR_ARGS(p)); break;
        case 7: mr_tile_1_14(MR_ARGS(p)); break;
        case 8: mr_tile_1_16(MR_ARGS(p)); break;
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
