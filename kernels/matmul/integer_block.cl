// What tiles of an integer product (integer_tile.cl) need of a block of 32 columns. A template, for
// each PRODUCT of a program (layout.cl).
#include "common/prelude.cl"
#include "matmul/cut.cl"
#include "matmul/dot.cl"
#include "matmul/layout.cl"
#include "matmul/levels.cl"
#include "matmul/mode.h"
#include "matmul/target.cl"
#include "quantize/block.cl"

#ifndef X_STRIDE
#define X_STRIDE (K_BLOCKS * Q_WORDS)
#endif
#if TILE == 5 || TILE > 6
#error "TILE is at most 4, or 6"
#endif
#ifndef MR_BLOCK_BEGUN
#define MR_BLOCK_BEGUN
// Prefetches exist only where the driver compiles for the processor itself. Weights go to the
// second-level cache: the first level has too few places for lines on their way.
#if defined(__x86_64__) || defined(__aarch64__)
#define MR_EXPECT(p) __builtin_prefetch((const void*)(size_t)(p), 0, 2)
#define MR_EXPECT_WRITE(p) __builtin_prefetch((const void*)(size_t)(p), 1, 3)
#else
#define MR_EXPECT(p)
#define MR_EXPECT_WRITE(p)
#endif

// What a tile reads and writes: its panels, the same one twice if `panels` is 1, the panels to
// prefetch, and the first column's codes and sums. The results of columns from `width` on are
// dropped. A tile of the matrix unit (matrix_tile.cl) has one panel, `weight`.
typedef struct {
  __global const uchar* weight;
  __global const uchar* second;
  __global const uchar* next;
  __global const int* x;
  __global float* out;
  __global const float* bias;
  uint out_stride, panels, width, mode;
} Tile;

#define MR_PANEL(p) ((p) == 0 ? tile->weight : tile->second)

// Writes the sums of column c and panel p.
static inline MR_TARGET_INLINE void mr_put(const Tile* tile, int c, int p, float16 total) {
  __global float16* to = (__global float16*)(tile->out + (size_t)c * tile->out_stride + p * 16);
  if ((tile->mode & MODE_BIASED) != 0) {
    total = total + *(__global const float16*)(tile->bias + p * 16);
  }
  if ((tile->mode & MODE_ADDS) != 0) total = total + *to;
  *to = total;
}
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

// Tiles of two panels, where registers hold twice the sums.
#undef PANELS
#if DOT >= 2
#define PANELS 2
#else
#define PANELS 1
#endif
