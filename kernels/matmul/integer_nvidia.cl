#pragma once
// Integer products on the matrix unit of NVIDIA GPUs. Contract, arguments and bits: those of
// integer_generic.cl. One instruction multiplies a block of 32 columns, or a run of 16, of a panel
// by 8 columns of x, and gives the exact sums i that the contract scales.
//
// `matmul`: a warp computes WARP_PANELS panels by WARP_TILES tiles of 8 columns of x, block by
// block, with its sums in registers. PIPELINED 1 loads a block while the one before is multiplied,
// which needs as many registers again.
//   launch  local (32, 4), groups (panels / (4 WARP_PANELS), columns / (8 WARP_TILES)), rounded up
// Limit: latency and number of loads; then 4 vector operations for each sum of a block.
//
// `matmul_narrow`: a group computes one panel by one tile, for few columns. Its eight warps take
// the blocks of a chunk side by side, so that enough loads are under way for the memory; then a
// work-item for each output adds the chunk's terms in the order of the contract.
//   launch  local (32, 8), groups (panels, columns / 8), rounded up
// Limit: memory.
//
// Defines besides those of layout.cl: WARP_PANELS, WARP_TILES, PIPELINED, X_STRIDE; NARROW 1
// compiles matmul_narrow, 0 matmul; MATRIX_UNIT (mma.cl).
#include "matmul/mma.cl"
#include "matmul/mode.h"
#include "matmul/weight.cl"
#include "quantize/block.cl"

#ifndef X_STRIDE
#define X_STRIDE (K_BLOCKS * Q_WORDS)
#endif
#ifndef WARP_PANELS
#define WARP_PANELS 2
#define WARP_TILES 4
#define PIPELINED 0
#endif
#ifndef NARROW
#define NARROW 0
#endif

#define TERMS (RUNS * (1 + AFFINE))
// 1.5 * 2^23 as an integer: added to an integer below 2^22 it gives the bits of the sum as a float.
#define MR_MAGIC 0x4b400000
#define MR_EXACT_FLOAT(i) (as_float(i) - 12582912.0f)

// Returns the values of columns 4g .. 4g+3 of a block and row, one a byte.
static inline uint mr_values_of(__global const uchar* panel, uint row, uint block, uint g) {
  const uint codes = mr_codes_of(panel, row, block, g);
#if CODE_LEVELS
  return panel[codes & 15u] | (uint)panel[codes >> 8 & 15u] << 8 |
         (uint)panel[codes >> 16 & 15u] << 16 | (uint)panel[codes >> 24 & 15u] << 24;
#else
  return codes;
#endif
}

// A lane's part of a block of a panel: rows g and g + 8.
typedef struct {
  uint words[4];          // of a (mma.cl); with two runs, two words of each
  float scale[TERMS][2];  // d of each run, then m
} PanelPart;

// A lane's part of a block of a tile of columns: column g; and of columns 2t and 2t + 1 what the
// sums need.
typedef struct {
  uint words[2];
  float scale[2], sum[RUNS][2];
  int start[RUNS][2];  // of the sums: -OFFSET times the sum of codes
} TilePart;

static inline void mr_load_panel(PanelPart* part, __global const uchar* panel, uint block,
                                 uint lane) {
  const uint g = lane / 4, t = lane % 4;
#if RUNS == 1
  MR_EACH(i, 2) {
    part->words[i] = mr_values_of(panel, g + 8 * i, block, 2 * t);
    part->words[2 + i] = mr_values_of(panel, g + 8 * i, block, 2 * t + 1);
  }
#else
  MR_EACH(run, 2) MR_EACH(i, 2) {
    part->words[2 * run + i] = mr_values_of(panel, g + 8 * i, block, 4 * run + t);
  }
#endif
  MR_EACH(term, TERMS) MR_EACH(i, 2) {
    part->scale[term][i] = mr_scale(panel, g + 8 * i, block, term);
  }
}

static inline void mr_load_tile(TilePart* part, __global const int* x, uint first, uint columns,
                                uint block, uint lane) {
  const uint g = lane / 4, t = lane % 4, at = block * Q_WORDS;
  __global const int* of = x + (size_t)min(first + g, columns - 1) * X_STRIDE + at;
#if RUNS == 1
  part->words[0] = (uint)of[2 * t];
  part->words[1] = (uint)of[2 * t + 1];
#else
  MR_EACH(run, 2) part->words[run] = (uint)of[4 * run + t];
#endif
  MR_EACH(i, 2) {
    of = x + (size_t)min(first + 2 * t + i, columns - 1) * X_STRIDE + at;
    // The words from Q_SCALE to Q_OFFSET_HALF.
    const int4 facts = *(__global const int4*)(of + Q_SCALE);
    const float scale = as_float(facts.s0);
    part->scale[i] = scale;
#if OFFSET != 0 || (RUNS == 2 && AFFINE)
    int rest = facts.s2;
    MR_EACH(run, RUNS) {
      const int offset = run == RUNS - 1 ? rest : facts.s3;
      rest -= offset;
      part->start[run][i] = (offset >> 3) * OFFSET;
#if RUNS == 2
      part->sum[run][i] = scale * (float)(-(offset >> 3));
#endif
    }
#else
    MR_EACH(run, RUNS) part->start[run][i] = 0;
#endif
#if RUNS == 1 && AFFINE
    part->sum[0][i] = as_float(facts.s1);
#endif
  }
}

// Computes the sums of a run: sums[0..3] are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
MR_GROUP_INLINE void mr_sums(int* sums, const PanelPart* a, const TilePart* b,
                             uint run MR_MMA_PARAMETER) {
  MR_EACH(i, 4) sums[i] = MR_MAGIC + b->start[run][i % 2];
#if RUNS == 1
  mr_mma32(sums, a->words, b->words);
#else
  mr_mma16(sums, a->words + 2 * run, b->words + run);
#endif
}

#if NARROW
#define NARROW_WARPS 8
#define CHUNK_BLOCKS (32 / RUNS)
#define WARP_BLOCKS (CHUNK_BLOCKS / NARROW_WARPS)

__kernel __attribute__((reqd_work_group_size(32, NARROW_WARPS, 1)))
void matmul_narrow(__global const uchar* weight, __global const int* x, __global float* out,
                   __global const float* bias, uint panels, uint columns, uint out_stride,
                   uint out_row, uint mode) {
  MR_MMA_MEMORY
  __local float2 products[CHUNK_BLOCKS * RUNS][8 * 16];  // i and d * s of each output
#if AFFINE
  __local float minima[CHUNK_BLOCKS * RUNS][16];
  __local float sums_of_x[CHUNK_BLOCKS * RUNS][8];
#endif
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  const uint p = (uint)get_group_id(0), first = (uint)get_group_id(1) * 8;
  const uint g = lane / 4, t = lane % 4, item = warp * 32 + lane;
  const uint row = item % 16, column = item / 16;  // of the output that a work-item adds
  weight += (size_t)p * PANEL_BYTES;
  PanelPart a[WARP_BLOCKS];
  TilePart b[WARP_BLOCKS];
  MR_EACH(j, WARP_BLOCKS) {
    const uint block = min(warp * WARP_BLOCKS + j, (uint)(K_BLOCKS - 1));
    mr_load_panel(&a[j], weight, block, lane);
    mr_load_tile(&b[j], x, first, columns, block, lane);
  }
  float acc = 0.0f;
  for (uint begin = 0; begin < K_BLOCKS; begin += CHUNK_BLOCKS) {
    MR_EACH(j, WARP_BLOCKS) MR_EACH(run, RUNS) {
      const uint at = (warp * WARP_BLOCKS + j) * RUNS + run;
      int sums[4];
      mr_sums(sums, &a[j], &b[j], run MR_MMA_ARGUMENT);
      MR_EACH(i, 4) {
        products[at][(2 * t + i % 2) * 16 + g + i / 2 * 8] =
            (float2)(MR_EXACT_FLOAT(sums[i]), a[j].scale[run][i / 2] * b[j].scale[i % 2]);
      }
#if AFFINE
      if (t == 0) MR_EACH(i, 2) minima[at][g + 8 * i] = a[j].scale[RUNS + run][i];
      if (g == 0) MR_EACH(i, 2) sums_of_x[at][2 * t + i] = b[j].sum[run][i];
#endif
    }
    // The next chunk's loads are under way while this one's terms are added.
    MR_EACH(j, WARP_BLOCKS) {
      const uint block =
          min(begin + CHUNK_BLOCKS + warp * WARP_BLOCKS + j, (uint)(K_BLOCKS - 1));
      mr_load_panel(&a[j], weight, block, lane);
      mr_load_tile(&b[j], x, first, columns, block, lane);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (column < 8 && first + column < columns) {
      const uint blocks = min((uint)CHUNK_BLOCKS, K_BLOCKS - begin);
      for (uint block = 0; block < blocks; ++block) {
        MR_EACH(run, RUNS) {
          const float2 product = products[block * RUNS + run][column * 16 + row];
          acc = fma(product.x, product.y, acc);
        }
#if AFFINE
        MR_EACH(run, RUNS) {
          acc = fma(minima[block * RUNS + run][row], sums_of_x[block * RUNS + run][column], acc);
        }
#endif
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (column >= 8 || first + column >= columns) return;
  if ((mode & MODE_BIASED) != 0) acc = acc + bias[out_row + p * 16 + row];
  out += (size_t)(first + column) * out_stride + out_row + p * 16 + row;
  if ((mode & MODE_ADDS) != 0) acc = acc + *out;
  *out = acc;
}
#else
// A lane's part of a block of what its warp multiplies.
typedef struct {
  PanelPart panels[WARP_PANELS];
  TilePart tiles[WARP_TILES];
} WarpPart;

static inline void mr_load_warp(WarpPart* part, __global const uchar* weight,
                                __global const int* x, uint first_panel, uint panels,
                                uint first_column, uint columns, uint block, uint lane) {
  MR_EACH(p, WARP_PANELS) {
    mr_load_panel(&part->panels[p],
                  weight + (size_t)min(first_panel + p, panels - 1) * PANEL_BYTES, block, lane);
  }
  MR_EACH(n, WARP_TILES) {
    mr_load_tile(&part->tiles[n], x, first_column + 8 * n, columns, block, lane);
  }
}

__kernel __attribute__((reqd_work_group_size(32, 4, 1)))
void matmul(__global const uchar* weight, __global const int* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  MR_MMA_MEMORY
  const uint lane = (uint)get_local_id(0), g = lane / 4, t = lane % 4;
  const uint first_panel = ((uint)get_group_id(0) * 4 + (uint)get_local_id(1)) * WARP_PANELS;
  const uint first_column = (uint)get_group_id(1) * (8 * WARP_TILES);
  float acc[WARP_PANELS][WARP_TILES][4];
  MR_EACH(p, WARP_PANELS) MR_EACH(n, WARP_TILES) MR_EACH(i, 4) acc[p][n][i] = 0.0f;
  WarpPart now;
#if PIPELINED
  WarpPart next;
  mr_load_warp(&now, weight, x, first_panel, panels, first_column, columns, 0, lane);
#endif
  _Pragma("unroll 1") for (uint block = 0; block < K_BLOCKS; ++block) {
#if PIPELINED
    mr_load_warp(&next, weight, x, first_panel, panels, first_column, columns,
                 min(block + 1, (uint)(K_BLOCKS - 1)), lane);
#else
    mr_load_warp(&now, weight, x, first_panel, panels, first_column, columns, block, lane);
#endif
    MR_EACH(p, WARP_PANELS) MR_EACH(n, WARP_TILES) {
      const PanelPart* a = &now.panels[p];
      const TilePart* b = &now.tiles[n];
      MR_EACH(run, RUNS) {
        int sums[4];
        mr_sums(sums, a, b, run MR_MMA_ARGUMENT);
        MR_EACH(i, 4) {
          acc[p][n][i] = fma(MR_EXACT_FLOAT(sums[i]), a->scale[run][i / 2] * b->scale[i % 2],
                             acc[p][n][i]);
        }
      }
#if AFFINE
      MR_EACH(run, RUNS) MR_EACH(i, 4) {
        acc[p][n][i] = fma(a->scale[RUNS + run][i / 2], b->sum[run][i % 2], acc[p][n][i]);
      }
#endif
    }
#if PIPELINED
    now = next;
#endif
  }
  MR_EACH(p, WARP_PANELS) MR_EACH(n, WARP_TILES) MR_EACH(i, 4) {
    const uint panel = first_panel + p, column = first_column + 8 * n + 2 * t + i % 2;
    if (panel < panels && column < columns) {
      const uint row = out_row + panel * 16 + g + i / 2 * 8;
      __global float* to = out + (size_t)column * out_stride + row;
      float sum = acc[p][n][i];
      if ((mode & MODE_BIASED) != 0) sum = sum + bias[row];
      if ((mode & MODE_ADDS) != 0) sum = sum + *to;
      *to = sum;
    }
  }
}
#endif
