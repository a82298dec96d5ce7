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
//   weight, out, bias, mode   as for exact_generic.cl; in the order of LANES 1 (layout.cl)
//   x        rows of X_STRIDE words of halves (quantize/code_block.h)
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
// With RAGGED 1 it multiplies the rows of all experts by the matrices of each (tiles.cl). Groups of
// a column are then those of a tile of the list, of which the launch may have more.
//
// Defines besides those of layout.cl: GROUP_WARPS, WARP_PANELS, WARP_TILES, STAGE_BLOCKS, STAGES,
// X_STRIDE, MATRIX_UNIT (mma.cl); those of tiles.cl.
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/operands.cl"
#include "matmul/panel_stages.cl"
#include "matmul/store_tiles.cl"
#include "matmul/tiles.cl"
#include "quantize/code_block.h"

#ifndef WARP_PANELS
#define WARP_PANELS 1
#define WARP_TILES 1
#define STAGES 2
#endif
#ifndef X_STRIDE
#define X_STRIDE ((K + 63) / 64 * 32)
#endif

#define TILE_COLUMNS (8 * WARP_TILES)
#define GROUP_PANELS (GROUP_WARPS * WARP_PANELS)
#define GROUP_ITEMS (32 * GROUP_WARPS)
// In vectors of 16 bytes.
#define PANELS_STAGE (GROUP_PANELS * PANEL_STAGE)
#define X_STAGE STAGE_X(STAGE_BLOCKS, TILE_COLUMNS)
#define STAGE_VECTORS (PANELS_STAGE + X_STAGE)

// Begins to copy a stage of the group's columns of x, block by block (mr_load_columns).
MR_GROUP_INLINE void mr_copy_x(__local uint4* to, __global const uint4* x, uint first,
                               uint columns, uint step, uint item) {
  MR_EACH(turn, MR_TURNS(X_STAGE, GROUP_ITEMS)) {
    const uint i = turn * GROUP_ITEMS + item, part = i % 4, b = i / 4 % STAGE_BLOCKS;
    const uint column = i / (4 * STAGE_BLOCKS);
    // What is absent stays as it is: no output that exists depends on it.
    if (MR_SHARED(i, X_STAGE, GROUP_ITEMS) && first + column < columns && MR_EXISTS(step, b)) {
      mr_copy16(to + b * TILE_COLUMNS * 4 + MR_COLUMN_AT(column, part),
                x + H_VECTOR_AT((size_t)first + column, (step * STAGE_BLOCKS + b) * 4 + part,
                                X_STRIDE / 4));
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

__kernel __attribute__((reqd_work_group_size(32, GROUP_WARPS, 1)))
void MR_PRODUCT(__global const uchar* weight, __global const uint4* x, __global float* out,
                __global const float* bias, uint panels, uint columns, uint out_stride,
                uint out_row, uint mode MR_RAGGED_PARAMETERS) {
  MR_MMA_MEMORY
  __local uint4 staged[STAGES * STAGE_VECTORS];
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1), g = lane / 4, t = lane % 4;
#if RAGGED
  const Tiles tiles = MR_TILES(panels, columns, GROUP_PANELS, TILE_COLUMNS);
  if (get_group_id(0) * tiles.rows >= tiles.count) return;
  const Tile tile = mr_tile(&tiles, (uint)get_group_id(0) * tiles.rows + (uint)get_group_id(1));
  columns = tile.end;
  bias = MR_TILE_BIAS(bias, tile);
#else
  const Tile tile = {0, (uint)get_group_id(1) * GROUP_PANELS, (uint)get_group_id(0) * TILE_COLUMNS,
                     columns};
#endif
  const uint first_panel = tile.panel + warp * WARP_PANELS, first_column = tile.column;
  const uint own = warp * WARP_PANELS * PANEL_STAGE;  // of a stage
  __global const uchar* panel[WARP_PANELS];
  float acc[WARP_PANELS][WARP_TILES][4];
  MR_EACH(p, WARP_PANELS) {
    const uint own_panel = min(first_panel + p, panels - 1);
    panel[p] = weight + (size_t)MR_PANEL_NUMBER(tiles, tile, own_panel) * PANEL_BYTES;
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
    __local const uint4* columns_of = stage + PANELS_STAGE;
    MR_UNIT_EACH(b, STAGE_BLOCKS) {
      if (MR_EXISTS(step, b)) {
        uint a[WARP_PANELS][2][4];
        MR_EACH(p, WARP_PANELS) {
          mr_operands(a[p], stage + own + p * PANEL_STAGE, panel[p], b, lane);
        }
        MR_UNIT_EACH(n, WARP_TILES) {
          const uint4 v = mr_load_columns(columns_of + (b * TILE_COLUMNS + 8 * n) * 4, lane);
          const uint first[2] = {v.x, v.y}, second[2] = {v.z, v.w};
          MR_UNIT_EACH(p, WARP_PANELS) mr_mma_halves(acc[p][n], a[p][0], first);
          MR_UNIT_EACH(p, WARP_PANELS) mr_mma_halves(acc[p][n], a[p][1], second);
        }
      }
    }
  }
  MR_EACH(p, WARP_PANELS) {
    const uint at = first_panel + p;
    if (at < panels) {
      mr_store_tiles(acc[p][0], WARP_TILES, out, bias, out_row + at * 16 + g, first_column + 2 * t,
                     columns, out_stride, mode);
    }
  }
}
