#pragma once
// Products by matrices of F16 or of bytes on the matrix unit of NVIDIA GPUs of compute capability
// 9.0, which reads both operands from local memory. Contract, arguments and bits: half_nvidia.cl,
// whose instructions add the same 16 columns in the same order; of bytes int8_nvidia.cl, whose sums
// are exact.
//
//   weight   panels whose rows stand as the unit reads them (UNIT_ROWS, layout.cl)
//   launch   local (32, 4 * WARPGROUPS + COPIERS), any number of groups: each computes tiles of
//            64 * WARPGROUPS rows by TILE_COLUMNS columns, tile by tile; tiles that share weights
//            are neighbours
//
// WARPGROUPS sets of four warps multiply, 64 rows each. A work-item of each of COPIERS more warps
// has the copy unit fill stages of 64 columns of K, 128 of bytes: the panels COPIERS * p + w of
// warp w, and such runs of the columns of x, both of which stand in memory as they do in local
// memory; and with a tile's first stage of bytes, the scales of those columns. A stage has a
// barrier that it is filled and one that it has been left. The filling runs on into the next tile.
// Fewer copying warps leave the others more registers, but begin fewer copies.
// Limit: many columns: the unit; few: memory.
//
// Defines besides those of layout.cl: WARPGROUPS, TILE_COLUMNS, COPIERS, STAGES, X_STRIDE,
// MATRIX_UNIT 1.
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/store_tiles.cl"
#include "matmul/tiles.cl"
#include "matmul/wgmma.cl"
#include "quantize/code_block.h"

#ifndef WARPGROUPS
#define WARPGROUPS 1
#define STAGES 4
#endif
#ifndef COPIERS
#define COPIERS 4
#endif
#ifndef X_STRIDE
#define X_STRIDE (MR_BYTES ? INT8_ROW_WORDS(INT8_GROUPS(K)) : (K + 63) / 64 * 32)
#endif

#if MR_BYTES
#define STEPS INT8_GROUPS(K)
#define MR_MULTIPLY_ROWS MR_WGMMA_BYTES
#define WHOLE_STEPS 1
#else
#define STEPS ((K + 63) / 64)
#define MR_MULTIPLY_ROWS MR_WGMMA_ROWS
#define WHOLE_STEPS (K % 64 == 0)
#endif
#define TILE_PANELS (4 * WARPGROUPS)
#define RUN_ROWS (TILE_COLUMNS < H_ROWS ? TILE_COLUMNS : H_ROWS)  // rows of x that stand together
#define RUNS_OF_X (TILE_COLUMNS / RUN_ROWS)
#define OWN_PANELS (TILE_PANELS / COPIERS)  // of a warp that copies
#define OWN_RUNS ((RUNS_OF_X + COPIERS - 1) / COPIERS)
// In bytes, of a stage but for ROW_STEP.
#define ROW_STEP 128  // of a row of x
#define RUN_BYTES (RUN_ROWS * ROW_STEP)
#define X_BYTES (TILE_COLUMNS * ROW_STEP)
#define UNIT_BYTES (16 * ROW_STEP)  // of a panel
#define ROWS_BYTES (TILE_PANELS * UNIT_BYTES)
#define ROWS_AT (STAGES * X_BYTES)
#define FILLED_AT (ROWS_AT + STAGES * ROWS_BYTES)
#define LEFT_AFTER (8 * STAGES)  // from the barrier that a stage is filled to that it has been left
#define X_SCALES_AT ROWS_WGMMA_BYTES(STAGES, TILE_COLUMNS, WARPGROUPS)
#define SLOT_BYTES ROWS_WGMMA_SCALES(TILE_COLUMNS)
#define SLOTS (MR_BYTES ? ROWS_WGMMA_SLOTS(STEPS, STAGES) : 0)
#define LOCAL_BYTES (X_SCALES_AT + SLOTS * SLOT_BYTES)

// A stage, and the phase of its barriers.
typedef struct {
  uint stage, phase;
} Turn;

MR_GROUP_INLINE void mr_next_turn(Turn* turn) {
  if (++turn->stage == STAGES) {
    turn->stage = 0;
    turn->phase ^= 1;
  }
}

// Has the stages of all tiles of the group filled with warp w's part; one work-item does this.
// Absent panels are the last one, and rows of x beyond the last panel of them are those of the
// last: no output that exists depends on them.
MR_GROUP_INLINE void mr_fill_tiles(uint memory, __global const uchar* weight,
                                   __global const uchar* x, Tiles tiles, uint w) {
  const uint last_panel = (tiles.columns - 1) / H_ROWS;
  uint own_runs = 0, slot = 0;
  MR_EACH(r, OWN_RUNS) own_runs += r * COPIERS + w < RUNS_OF_X;
  Turn turn = {0, 1};
  for (uint tile = (uint)get_group_id(0); tile < tiles.count; tile += (uint)get_num_groups(0)) {
    const uint tile_row = tile / tiles.column_tiles;
    __global const uchar *panels[OWN_PANELS], *runs[OWN_RUNS];
    MR_EACH(p, OWN_PANELS) {
      const uint panel = tile_row * TILE_PANELS + p * COPIERS + w;
      panels[p] = weight + (size_t)min(panel, tiles.panels - 1) * PANEL_BYTES;
    }
    MR_EACH(r, OWN_RUNS) {
      const uint row = tile % tiles.column_tiles * TILE_COLUMNS + (r * COPIERS + w) * RUN_ROWS;
      runs[r] = x + (size_t)min(row / H_ROWS, last_panel) * (H_ROWS * X_STRIDE * 4) +
                row % H_ROWS * ROW_STEP;
    }
    _Pragma("unroll 1") for (uint step = 0; step < STEPS; ++step) {
      const uint filled = memory + FILLED_AT + 8 * turn.stage;
      const uint rows = memory + ROWS_AT + turn.stage * ROWS_BYTES + w * UNIT_BYTES;
      const uint columns = memory + turn.stage * X_BYTES + w * RUN_BYTES;
      mr_wait_for_phase(filled + LEFT_AFTER, turn.phase);
      const bool scales = MR_BYTES && step == 0;
      mr_arrive_for_bytes(filled, OWN_PANELS * UNIT_BYTES +
                                      own_runs * (RUN_BYTES + (scales ? H_ROWS * 4 : 0)));
      MR_EACH(p, OWN_PANELS) {
        mr_copy_bytes(rows + p * (COPIERS * UNIT_BYTES), panels[p] + step * UNIT_BYTES, UNIT_BYTES,
                      filled);
      }
      MR_EACH(r, OWN_RUNS) {
        if (r * COPIERS + w < RUNS_OF_X) {
          mr_copy_bytes(columns + r * (COPIERS * RUN_BYTES), runs[r] + step * (H_ROWS * ROW_STEP),
                        RUN_BYTES, filled);
          // Behind all groups of the panel of x that the run is of.
          if (scales) {
            const uint before = tile % tiles.column_tiles * TILE_COLUMNS % H_ROWS * ROW_STEP;
            mr_copy_bytes(memory + X_SCALES_AT + slot * SLOT_BYTES + (r * COPIERS + w) * 256,
                          runs[r] - before + STEPS * (H_ROWS * ROW_STEP), H_ROWS * 4, filled);
          }
        }
      }
      mr_next_turn(&turn);
    }
    slot = slot + 1 < SLOTS ? slot + 1 : 0;
  }
}

// Multiplies the stages of all tiles of the group, and stores the sums.
MR_GROUP_INLINE void mr_multiply_tiles(__local const uchar* local_memory,
                                       __global const uchar* weight, Tiles tiles,
                                       __global float* out, __global const float* bias,
                                       uint out_stride, uint out_row, uint mode, uint warp,
                                       uint lane) {
  const uint memory = (uint)(size_t)local_memory;
  const ulong first_rows = mr_columns(memory + ROWS_AT + warp / 4 * (4 * UNIT_BYTES));
  const ulong first_columns = mr_columns(memory);
  Turn turn = {0, 0};
  uint slot = 0;
  for (uint tile = (uint)get_group_id(0); tile < tiles.count; tile += (uint)get_num_groups(0)) {
    Sum acc[TILE_SUMS];
    MR_EACH(i, TILE_SUMS) acc[i] = 0;
    uint leaves = 0;  // the barrier of the stage before, for a lane that says so; or 0
    _Pragma("unroll 1") for (uint step = 0; step < STEPS; ++step) {
      const uint filled = memory + FILLED_AT + 8 * turn.stage;
      mr_wait_for_phase(filled, turn.phase);
      const ulong rows = first_rows + turn.stage * (ROWS_BYTES / 16);
      const ulong columns = first_columns + turn.stage * (X_BYTES / 16);
      MR_WGMMA_BEGIN();
      MR_EACH(j, 2) MR_MULTIPLY_ROWS(acc, rows + j * 2, columns + j * 2);
      // Half of the last step is missing where K is no multiple of 64: x has no zeros there.
      if (WHOLE_STEPS || step + 1 < STEPS) {
        MR_EACH(j, 2) MR_MULTIPLY_ROWS(acc, rows + 4 + j * 2, columns + 4 + j * 2);
      }
      MR_WGMMA_BEGUN();
      MR_WGMMA_WAIT_FOR_EARLIER();
      if (leaves != 0) mr_arrive(leaves);
      leaves = lane == 0 ? filled + LEFT_AFTER : 0;
      mr_next_turn(&turn);
    }
    MR_WGMMA_WAIT(acc);
    if (leaves != 0) mr_arrive(leaves);
    const uint panel = tile / tiles.column_tiles * TILE_PANELS + warp;
    const uint column = tile % tiles.column_tiles * TILE_COLUMNS + 2 * (lane % 4);
    if (panel < tiles.panels) {
#if MR_BYTES
      __local const float* by_column =
          (__local const float*)(local_memory + X_SCALES_AT + slot * SLOT_BYTES);
      const SumScales scales = mr_scales_of(weight + (size_t)panel * PANEL_BYTES,
                                            by_column + column % H_ROWS, lane / 4);
#endif
      mr_store_tiles(acc, TILE_COLUMNS / 8, out, bias, out_row + panel * 16 + lane / 4, column,
                     tiles.columns, out_stride, mode MR_SCALES_ARGUMENT);
    }
    slot = slot + 1 < SLOTS ? slot + 1 : 0;
  }
}

__kernel __attribute__((reqd_work_group_size(32, TILE_PANELS + COPIERS, 1)))
void matmul(__global const uchar* weight, __global const uchar* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  __local __attribute__((aligned(1024))) uchar local_memory[LOCAL_BYTES];
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  const uint memory = (uint)(size_t)local_memory;
  const Tiles tiles = MR_TILES(panels, columns, TILE_PANELS, TILE_COLUMNS);
  if (warp == 0 && lane == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      mr_barrier_init(memory + FILLED_AT + 8 * i, COPIERS);
      mr_barrier_init(memory + FILLED_AT + LEFT_AFTER + 8 * i, TILE_PANELS);
    }
    MR_BARRIERS_MADE();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp < TILE_PANELS) {
    mr_multiply_tiles(local_memory, weight, tiles, out, bias, out_stride, out_row, mode, warp,
                      lane);
  } else if (lane == 0) {
    mr_fill_tiles(memory, weight, x, tiles, warp - TILE_PANELS);
  }
}
