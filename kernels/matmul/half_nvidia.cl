#pragma once
// Products of halves on the matrix unit of NVIDIA GPUs, the contract of math fast in this family:
//
//   out[c][r] = 16 * sum over k of half(weight[r][k]) * half(x[c][k] / 16)
//               (+ bias[r]) (+ out[c][r] before)
//
// Halves are the nearest even of a weight as the file defines it, and of a number of x. The sum is
// one chain of instructions (mma.cl) over k, 16 columns each, ascending, whose float result one
// instruction hands to the next. How an instruction adds its 16 products is the unit's own; it is
// the same for every output, so shapes, neighbours and sizes change no bit. A number of x from
// 2^20 on is infinite as a half, and shows in every result that uses it.
//
//   weight, out, bias, mode   as for exact_generic.cl; plain halves with QUADS 1 (layout.cl)
//   x        blocks of 32 halves (quantize/code_block.h), X_STRIDE words from row to row
//   launch   local (32, GROUP_WARPS), groups (columns / TILE_COLUMNS, panels / GROUP_PANELS),
//            rounded up: groups that share weights run together
//
// A warp computes WARP_PANELS panels by WARP_TILES tiles of 8 columns, and keeps its sums in
// registers. The panels of its warps and the group's columns of x are copied to local memory in
// stages of STAGE_BLOCKS blocks, 1, 2, 4 or 8; STAGES - 1 of them are under way. (Registers would
// not hold what is under way: the compiler moves loads to their use.) Lane 4g + t takes the columns
// 8t .. 8t+7 of a block, of the rows g and g + 8 of a panel and of column g of a tile: the first
// four for one instruction, the rest for the next.
// Limit: few columns: memory; many: the reads of local memory, and what a stage waits for (README).
//
// Defines besides those of layout.cl: GROUP_WARPS, WARP_PANELS, WARP_TILES, STAGE_BLOCKS, STAGES,
// X_STRIDE, MATRIX_UNIT (mma.cl).
#include "common/halves.cl"
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/mode.h"
#include "quantize/code_block.h"

#ifndef WARP_PANELS
#define WARP_PANELS 1
#define WARP_TILES 1
#define STAGE_BLOCKS 2
#define STAGES 2
#endif
#ifndef X_STRIDE
#define X_STRIDE (K_BLOCKS * H_WORDS)
#endif

#define TILE_COLUMNS (8 * WARP_TILES)
#define GROUP_PANELS (GROUP_WARPS * WARP_PANELS)
#define STEPS ((K_BLOCKS + STAGE_BLOCKS - 1) / STAGE_BLOCKS)
#define GROUP_ITEMS (32 * GROUP_WARPS)
// In vectors of 16 bytes.
#define BLOCK_VECTORS STAGE_BLOCK_VECTORS(SCALE_SIZE > 0, WORDS)
#define PADDED_AFTER STAGE_PADDED_AFTER(SCALE_SIZE > 0)
#define BLOCK_PITCH STAGE_BLOCK_PITCH(SCALE_SIZE > 0, WORDS)
#define SCALE_VECTORS (SCALES * SCALE_SIZE)  // of a block
#define STEP_VECTORS STAGE_STEP_VECTORS(SCALE_SIZE == 1, AFFINE)
#define STAGE_SCALES (STAGE_BLOCKS * BLOCK_PITCH)
#define STAGE_STEPS (STAGE_SCALES + STAGE_BLOCKS * SCALE_VECTORS)
#define PANEL_STAGE STAGE_PANEL(STAGE_BLOCKS, BLOCK_PITCH, SCALE_VECTORS, STEP_VECTORS)
#define PANELS_STAGE (GROUP_PANELS * PANEL_STAGE)
#define X_STAGE STAGE_X(STAGE_BLOCKS, TILE_COLUMNS)
#define STAGE_VECTORS (PANELS_STAGE + X_STAGE)

// Whether block b of a stage exists; the stage must.
#define MR_EXISTS(step, b) \
  (K_BLOCKS % STAGE_BLOCKS == 0 || (step) * STAGE_BLOCKS + (b) < K_BLOCKS)
// The turns in which so many work-items share `count` vectors, and whether there is an i for each.
#define MR_TURNS(count, items) (((count) + (items) - 1) / (items))
#define MR_SHARED(i, count, items) ((count) % (items) == 0 || (i) < (count))

// Begins to copy the blocks of a stage of a panel; a warp does this for its own.
MR_GROUP_INLINE void mr_copy_panel(__local uint4* to, __global const uchar* panel, uint step,
                                   uint lane) {
#if SCALE_SIZE > 0
  const uint codes_at = CODES_AT;
#else
  const uint codes_at = 0;
#endif
  __global const uint4* codes = (__global const uint4*)(panel + codes_at) +
                                step * (STAGE_BLOCKS * BLOCK_VECTORS);
  MR_EACH(turn, MR_TURNS(STAGE_BLOCKS * BLOCK_VECTORS, 32)) {
    const uint i = turn * 32 + lane, b = i / BLOCK_VECTORS, at = i % BLOCK_VECTORS;
    if (MR_SHARED(i, STAGE_BLOCKS * BLOCK_VECTORS, 32) && MR_EXISTS(step, b)) {
      mr_copy16(to + b * BLOCK_PITCH + at + at / PADDED_AFTER * 2, codes + i);
    }
  }
#if SCALE_SIZE > 0
  __global const uint4* scales = (__global const uint4*)(panel + SCALES_AT) +
                                 step * (STAGE_BLOCKS * SCALE_VECTORS);
  MR_EACH(turn, MR_TURNS(STAGE_BLOCKS * SCALE_VECTORS, 32)) {
    const uint i = turn * 32 + lane;
    if (MR_SHARED(i, STAGE_BLOCKS * SCALE_VECTORS, 32) && MR_EXISTS(step, i / SCALE_VECTORS)) {
      mr_copy16(to + STAGE_SCALES + i, scales + i);
    }
  }
#endif
#if SCALE_SIZE == 1
  if (lane < STEP_VECTORS) {
    mr_copy16(to + STAGE_STEPS + lane, (__global const uint4*)(panel + HALVES_AT) +
                                           step * STAGE_BLOCKS / 8 * STEP_VECTORS + lane);
  }
#endif
}

// Begins to copy a stage of the group's columns of x: vector 4 * (b * TILE_COLUMNS + column) + i
// has the halves 8i and on of block b.
MR_GROUP_INLINE void mr_copy_x(__local uint4* to, __global const uint4* x, uint first,
                               uint columns, uint step, uint item) {
  MR_EACH(turn, MR_TURNS(X_STAGE, GROUP_ITEMS)) {
    const uint i = turn * GROUP_ITEMS + item, part = i % 4, b = i / 4 % STAGE_BLOCKS;
    const uint column = i / (4 * STAGE_BLOCKS);
    // What is absent stays as it is: no output that exists depends on it.
    if (MR_SHARED(i, X_STAGE, GROUP_ITEMS) && first + column < columns && MR_EXISTS(step, b)) {
      mr_copy16(to + (b * TILE_COLUMNS + column) * 4 + part,
                x + (size_t)(first + column) * (X_STRIDE / 4) +
                    (step * STAGE_BLOCKS + b) * (H_WORDS / 4) + part);
    }
  }
}

MR_GROUP_INLINE void mr_copy_stage(__local uint4* to, __global const uchar* const* panel,
                                   __global const uint4* x, uint first_column, uint columns,
                                   uint step) {
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  if (step < STEPS) {
    MR_EACH(p, WARP_PANELS) {
      mr_copy_panel(to + (warp * WARP_PANELS + p) * PANEL_STAGE, panel[p], step, lane);
    }
    mr_copy_x(to + PANELS_STAGE, x, first_column, columns, step, warp * 32 + lane);
  }
  MR_COPIES_BEGUN();
}

#if SCALE_SIZE > 0
// Returns number i of row `row` of block b: a d, or an m.
MR_GROUP_INLINE float mr_staged_scale(__local const uint4* stage, uint b, uint row, uint i) {
  const uint at = (b * SCALES + i) * 16 + row;
#if SCALE_SIZE == 4
  return ((__local const float*)(stage + STAGE_SCALES))[at];
#elif SCALE_SIZE == 2
  return mr_from_half(((__local const ushort*)(stage + STAGE_SCALES))[at]);
#else
  const uint half_of = ((__local const ushort*)(stage + STAGE_STEPS))[i / RUNS * 16 + row];
  return mr_from_half(half_of) * (float)((__local const char*)(stage + STAGE_SCALES))[at];
#endif
}

// Returns the weight of a code.
static inline float mr_value(__global const uchar* panel, uint code, float d, float m) {
#if CODE_LEVELS
  code = panel[code];
#endif
  // 2^23 + code as a float, exactly.
  const float value = as_float(0x4b000000u | code) - (8388608.0f + OFFSET);
#if AFFINE
  return fma(d, value, m);
#else
  return d * value;
#endif
}

#define MR_STAGED_WORD(i) words[(i) * 16 + (i) / 2 * 8]

// Makes the operands of two instructions (mma.cl) of a panel's block b.
MR_GROUP_INLINE void mr_operands(uint a[2][4], __local const uint4* stage,
                               __global const uchar* panel, uint b, uint g, uint t) {
  const uint run = RUNS == 2 ? t / 2 : 0;
  MR_EACH(i, 2) {
    const uint row = g + 8 * i;
    __local const uint* words = (__local const uint*)(stage + b * BLOCK_PITCH) + row;
    const float d = mr_staged_scale(stage, b, row, run);
    const float m = AFFINE ? mr_staged_scale(stage, b, row, RUNS + run) : 0.0f;
    MR_EACH(j, 2) {
      const uint group = 2 * t + j;
#if CODES == 5 || CODES == 6
      const uint codes = MR_LOW_CODES(uint, MR_STAGED_WORD, group) |
                         MR_HIGH_CODES(uint, MR_STAGED_WORD, group);
#else
      const uint codes = MR_LOW_CODES(uint, MR_STAGED_WORD, group);
#endif
      MR_EACH(pair, 2) {
        a[j][2 * pair + i] = mr_halves(mr_value(panel, codes >> (16 * pair) & 255u, d, m),
                                       mr_value(panel, codes >> (16 * pair + 8) & 255u, d, m));
      }
    }
  }
}
#else
static inline uint mr_half_pair(uint values) {
#if CODES == MR_F16
  return values;
#else
  return mr_halves(as_float(values << 16), as_float(values & 0xffff0000u));
#endif
}

MR_GROUP_INLINE void mr_operands(uint a[2][4], __local const uint4* stage,
                               __global const uchar* panel, uint b, uint g, uint t) {
  // Fours of columns have 128 bytes, and 32 of padding follow each pair of them.
  __local const uint2* fours = (__local const uint2*)(stage + b * BLOCK_PITCH) + 36 * t;
  MR_EACH(i, 2) MR_EACH(j, 2) {
    const uint2 values = fours[16 * j + g + 8 * i];
    a[j][i] = mr_half_pair(values.x);
    a[j][2 + i] = mr_half_pair(values.y);
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(32, GROUP_WARPS, 1)))
void matmul(__global const uchar* weight, __global const uint4* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  MR_MMA_MEMORY
  __local uint4 staged[STAGES * STAGE_VECTORS];
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1), g = lane / 4, t = lane % 4;
  const uint first_panel = (uint)get_group_id(1) * GROUP_PANELS + warp * WARP_PANELS;
  const uint first_column = (uint)get_group_id(0) * TILE_COLUMNS;
  const uint own = warp * WARP_PANELS * PANEL_STAGE;  // of a stage
  __global const uchar* panel[WARP_PANELS];
  float acc[WARP_PANELS][WARP_TILES][4];
  MR_EACH(p, WARP_PANELS) {
    panel[p] = weight + (size_t)min(first_panel + p, panels - 1) * PANEL_BYTES;
    MR_EACH(n, WARP_TILES) MR_EACH(i, 4) acc[p][n][i] = 0.0f;
  }
  for (uint step = 0; step < STAGES - 1; ++step) {
    mr_copy_stage(staged + step * STAGE_VECTORS, panel, x, first_column, columns, step);
  }
  _Pragma("unroll 1") for (uint step = 0; step < STEPS; ++step) {
    MR_WAIT_FOR_COPIES(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);  // the stage has arrived, and all have left the one before
    mr_copy_stage(staged + (step + STAGES - 1) % STAGES * STAGE_VECTORS, panel, x, first_column,
                  columns, step + STAGES - 1);
    __local const uint4* stage = staged + step % STAGES * STAGE_VECTORS;
    __local const uint4* columns_of = stage + PANELS_STAGE + g * 4 + t;
    MR_UNIT_EACH(b, STAGE_BLOCKS) {
      if (MR_EXISTS(step, b)) {
        uint a[WARP_PANELS][2][4];
        MR_EACH(p, WARP_PANELS) {
          mr_operands(a[p], stage + own + p * PANEL_STAGE, panel[p], b, g, t);
        }
        MR_UNIT_EACH(n, WARP_TILES) {
          const uint4 v = columns_of[(b * TILE_COLUMNS + 8 * n) * 4];
          const uint first[2] = {v.x, v.y}, second[2] = {v.z, v.w};
          MR_UNIT_EACH(p, WARP_PANELS) mr_mma_halves(acc[p][n], a[p][0], first);
          MR_UNIT_EACH(p, WARP_PANELS) mr_mma_halves(acc[p][n], a[p][1], second);
        }
      }
    }
  }
  MR_EACH(p, WARP_PANELS) MR_EACH(n, WARP_TILES) MR_EACH(i, 4) {
    const uint at = first_panel + p, column = first_column + 8 * n + 2 * t + i % 2;
    if (at < panels && column < columns) {
      const uint row = out_row + at * 16 + g + i / 2 * 8;
      __global float* to = out + (size_t)column * out_stride + row;
      float sum = acc[p][n][i] * H_UNIT;
      if ((mode & MODE_BIASED) != 0) sum = sum + bias[row];
      if ((mode & MODE_ADDS) != 0) sum = sum + *to;
      *to = sum;
    }
  }
}
