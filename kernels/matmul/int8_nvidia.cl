#pragma once
// Products of signed bytes on the matrix unit of NVIDIA GPUs, the contract of math int8:
//
//   out[c][r] = ((float)S * scale of x[c]) * scale of weight[r] (+ bias[r]) (+ out[c][r] before)
//   S         = the sum of the products of their codes, an exact integer
//
//   weight    panels of int8_panel.h
//   x         panels of rows of bytes (quantize/code_block.h)
//   others    as for half_nvidia.cl, whose launch this has, too
//
// A row has the same bits in any shape, since sums are exact. A scale of x that is no number makes
// every result of its row one that is no number.
// A warp computes WARP_PANELS panels by WARP_TILES tiles of 8 columns. A stage in local memory is
// one group of K; STAGES - 1 are under way.
// Limit: few columns: memory; many: the reads of local memory.
//
// Defines besides those of layout.cl: GROUP_WARPS, WARP_PANELS, WARP_TILES, STAGES, MATRIX_UNIT
// (mma.cl).
#include "matmul/int8_format.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/store_tiles.cl"
#include "quantize/code_block.h"

#ifndef WARP_PANELS
#define WARP_PANELS 1
#define WARP_TILES 1
#define STAGES 2
#endif

#define STEPS INT8_GROUPS(K)
#define TILE_COLUMNS (8 * WARP_TILES)
#define GROUP_PANELS (GROUP_WARPS * WARP_PANELS)
#define GROUP_ITEMS (32 * GROUP_WARPS)
// In vectors of 16 bytes.
#define STEP_VECTORS (INT8_STEP_BYTES / 16)
#define PANELS_STAGE (GROUP_PANELS * STEP_VECTORS)
#define X_STAGE (TILE_COLUMNS * 8)
#define STAGE_VECTORS INT8_STAGE_VECTORS(GROUP_PANELS, TILE_COLUMNS)

// Begins to copy a stage of the group's columns of x, whose vectors keep their order.
MR_GROUP_INLINE void mr_copy_x(__local uint4* to, __global const uint4* x, uint first,
                               uint columns, uint step, uint item) {
  MR_EACH(turn, (X_STAGE + GROUP_ITEMS - 1) / GROUP_ITEMS) {
    const uint i = turn * GROUP_ITEMS + item;
    const size_t row = first + i / 8;
    // What is absent stays as it is: no output that exists depends on it.
    if ((X_STAGE % GROUP_ITEMS == 0 || i < X_STAGE) && row < columns) {
      mr_copy16(to + i, x + INT8_VECTOR_AT(row, step * 8 + ((i ^ row) % 8), STEPS));
    }
  }
}

MR_GROUP_INLINE void mr_copy_stage(__local uint4* to, __global const uchar* const* panel,
                                   __global const uint4* x, uint first_column, uint columns,
                                   uint step) {
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  if (step < STEPS) {
    MR_EACH(p, WARP_PANELS) MR_EACH(turn, STEP_VECTORS / 32) {
      mr_copy16(to + (warp * WARP_PANELS + p) * STEP_VECTORS + turn * 32 + lane,
                (__global const uint4*)(panel[p] + step * INT8_STEP_BYTES) + turn * 32 + lane);
    }
    mr_copy_x(to + PANELS_STAGE, x, first_column, columns, step, warp * 32 + lane);
  }
  MR_COPIES_BEGUN();
}

__kernel __attribute__((reqd_work_group_size(32, GROUP_WARPS, 1)))
void matmul(__global const uchar* weight, __global const uint4* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  MR_MMA_MEMORY
  __local uint4 staged[STAGES * STAGE_VECTORS];
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  const uint first_panel = (uint)get_group_id(1) * GROUP_PANELS + warp * WARP_PANELS;
  const uint first_column = (uint)get_group_id(0) * TILE_COLUMNS;
  __global const uchar* panel[WARP_PANELS];
  __local float scales_of_x[TILE_COLUMNS];
  int sums[WARP_PANELS][WARP_TILES][4];
  MR_EACH(p, WARP_PANELS) {
    panel[p] = weight + (size_t)min(first_panel + p, panels - 1) * PANEL_BYTES;
    MR_EACH(n, WARP_TILES) MR_EACH(i, 4) sums[p][n][i] = 0;
  }
  // The first barrier shows them to all.
  if (lane + 32 * warp < TILE_COLUMNS) {
    const size_t column = min(first_column + lane + 32 * warp, columns - 1);
    scales_of_x[lane + 32 * warp] =
        ((__global const float*)x)[INT8_SCALE_AT(column, INT8_GROUPS(K))];
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
    MR_UNIT_EACH(m, 2) {
      uint a[WARP_PANELS][2][4];
      MR_EACH(p, WARP_PANELS) MR_EACH(j, 2) {
        mr_load_rows(a[p][j], stage + (warp * WARP_PANELS + p) * STEP_VECTORS, 4 * m + 2 * j,
                     lane);
      }
      MR_UNIT_EACH(n, WARP_TILES) {
        const uint4 v = mr_load_unit_columns(stage + PANELS_STAGE + n * 64, 4 * m, lane);
        const uint first[2] = {v.x, v.y}, second[2] = {v.z, v.w};
        MR_UNIT_EACH(p, WARP_PANELS) mr_mma_bytes(sums[p][n], a[p][0], first);
        MR_UNIT_EACH(p, WARP_PANELS) mr_mma_bytes(sums[p][n], a[p][1], second);
      }
    }
  }
  MR_EACH(p, WARP_PANELS) {
    const uint at = first_panel + p;
    if (at < panels) {
      const SumScales scales = mr_scales_of(panel[p], scales_of_x + lane % 4 * 2, lane / 4);
      mr_store_tiles(sums[p][0], WARP_TILES, out, bias, out_row + at * 16 + lane / 4,
                     first_column + lane % 4 * 2, columns, out_stride, mode, scales);
    }
  }
}
