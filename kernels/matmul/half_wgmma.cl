#pragma once
// Products of halves on the matrix unit of NVIDIA GPUs of compute capability 9.0, with instructions
// of four warps. Contract, arguments and bits: half_nvidia.cl, whose instructions add the same 16
// columns in the same order.
//
//   launch   local (32, 4 * WARPGROUPS + 1), any number of groups: each computes tiles of
//            64 * WARPGROUPS rows by TILE_COLUMNS columns, tile by tile; tiles that share weights
//            are neighbours
//
// WARPGROUPS sets of four warps have 64 rows each. A warp has a panel: it copies the panel's stages
// of two blocks to a ring of its own (panel_stages.cl), and makes operands of a block
// (operands.cl) while the unit multiplies the block before it. One more warp copies the tile's
// columns of x, which stand in memory as the unit reads them (quantize/code_block.h), to a ring for
// all. Its stages have a barrier that they have arrived and one that they have been left. Both
// rings run on into the next tile.
// Limit: many columns: the unit, which stops between instructions with operands from registers;
// few: memory, or the chain of blocks of a set of warps (README).
//
// Defines besides those of layout.cl: WARPGROUPS, TILE_COLUMNS, STAGE_BLOCKS 2, STAGES, X_STRIDE,
// MATRIX_UNIT 1; those of tiles.cl.
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/operands.cl"
#include "matmul/panel_stages.cl"
#include "matmul/store_tiles.cl"
#include "matmul/tiles.cl"
#include "matmul/wgmma.cl"
#include "quantize/code_block.h"

#ifndef WARPGROUPS
#define WARPGROUPS 1
#define STAGES 4
#endif
#ifndef X_STRIDE
#define X_STRIDE ((K + 63) / 64 * 32)
#endif

#define TILE_PANELS (4 * WARPGROUPS)
// In bytes.
#define PANEL_STAGE_BYTES (PANEL_STAGE * 16)
#define RUN_ROWS (TILE_COLUMNS < H_ROWS ? TILE_COLUMNS : H_ROWS)  // rows of x that stand together
#define RUN_BYTES (RUN_ROWS * 128)
#define X_BYTES (TILE_COLUMNS * 128)
#define PANELS_AT (STAGES * X_BYTES)
#define BARRIERS_AT (PANELS_AT + STAGES * TILE_PANELS * PANEL_STAGE_BYTES)
#define LOCAL_BYTES WGMMA_BYTES(STAGES, TILE_COLUMNS, TILE_PANELS, PANEL_STAGE)
#define LEFT_AT (BARRIERS_AT + 8 * STAGES)  // after the barriers of what has arrived

// Rows of x that stand together and belong to a tile: a piece. The runs of a dense product do not
// cross a panel of rows. Slots of experts do, but no more is copied than they need.
#if RAGGED
#define PIECES ((TILE_COLUMNS + H_ROWS - TILE_GRANULE - 1) / H_ROWS + 1)
#else
#define PIECES (TILE_COLUMNS / RUN_ROWS)
#endif
typedef struct {
  __global const uchar* from;
  uint to, bytes;  // `to` from the beginning of the stage
} Piece;

// Returns the bytes of all pieces. Rows of x beyond the last panel of them are those of the last:
// no output that exists depends on them.
MR_GROUP_INLINE uint mr_pieces(Piece* pieces, __global const uchar* x, const Tiles* tiles,
                               uint number) {
  const Tile tile = mr_tile(tiles, number);
#if RAGGED
  uint row = tile.column;
  const uint end = (tile.end + TILE_GRANULE - 1) / TILE_GRANULE * TILE_GRANULE;
  MR_EACH(i, PIECES) {
    const uint rows = min(end - row, H_ROWS - row % H_ROWS);
    pieces[i].from =
        x + (size_t)(row / H_ROWS) * (H_ROWS * X_STRIDE * 4) + row % H_ROWS * 128;
    pieces[i].to = (row - tile.column) * 128;
    pieces[i].bytes = rows * 128;
    row += rows;
  }
  return (end - tile.column) * 128;
#else
  const uint last_panel = (tile.end - 1) / H_ROWS;
  MR_EACH(i, PIECES) {
    const uint row = tile.column + i * RUN_ROWS;
    pieces[i].from = x + (size_t)min(row / H_ROWS, last_panel) * (H_ROWS * X_STRIDE * 4) +
                     row % H_ROWS * 128;
    pieces[i].to = i * RUN_BYTES;
    pieces[i].bytes = RUN_BYTES;
  }
  return X_BYTES;
#endif
}

// Copies the columns of all tiles of the group; one work-item does this.
MR_GROUP_INLINE void mr_copy_tiles(uint memory, __global const uchar* x, Tiles tiles) {
  uint stage = 0, phase = 1;
  for (uint tile = (uint)get_group_id(0); tile < tiles.count; tile += (uint)get_num_groups(0)) {
    Piece pieces[PIECES];
    const uint bytes = mr_pieces(pieces, x, &tiles, tile);
    _Pragma("unroll 1") for (uint step = 0; step < STEPS; ++step) {
      const uint arrived = memory + BARRIERS_AT + 8 * stage;
      mr_wait_for_phase(arrived + 8 * STAGES, phase);
      mr_arrive_for_bytes(arrived, bytes);
      MR_EACH(i, PIECES) {
        if (!RAGGED || pieces[i].bytes > 0) {
          mr_copy_bytes(memory + stage * X_BYTES + pieces[i].to, pieces[i].from, pieces[i].bytes,
                        arrived);
        }
        pieces[i].from += H_ROWS * 128;
      }
      if (++stage == STAGES) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

// A warp's part of its group's work: where the rings stand, and how far the own one is filled.
typedef struct {
  __global const uchar* weight;
  Tiles tiles;
  uint warp, lane, memory;
  __local uint4 *ring, *stage;  // the own ring, and the stage of it whose operands come next
  uint x_stage, phase;          // the stage of x that is multiplied next
  uint leaves;                  // the barrier of the stage before, for a lane that says so; or 0
  uint filled_tile, filled_step;
  StageSource filled;
} Warp;

// Absent panels are the last one: no output that exists depends on them.
MR_GROUP_INLINE __global const uchar* mr_panel_of(const Warp* own, uint tile) {
  const Tile at = mr_tile(&own->tiles, tile);
  const uint panel = min(at.panel + own->warp, own->tiles.panels - 1);
  return own->weight + (size_t)MR_PANEL_NUMBER(own->tiles, at, panel) * PANEL_BYTES;
}

// Begins to copy the stage of panels that is next, to `to`.
MR_GROUP_INLINE void mr_fill(Warp* own, __local uint4* to) {
  if (own->filled_tile < own->tiles.count) {
    mr_copy_from(to, own->filled, own->filled_step, own->lane);
    mr_next_source(&own->filled, own->filled_step);
    if (++own->filled_step == STEPS) {
      own->filled_step = 0;
      own->filled_tile += (uint)get_num_groups(0);
      own->filled = mr_stages_of(mr_panel_of(own, own->filled_tile), own->lane);
    }
  }
  MR_COPIES_BEGUN();
}

// Waits for the oldest stage of panels that is under way.
MR_GROUP_INLINE void mr_wait_for_panel(void) {
  MR_WAIT_FOR_COPIES(STAGES - 1);
  MR_WARP_BARRIER();
}

// Fills the stage of panels whose operands have been made, and goes on to the next.
MR_GROUP_INLINE void mr_refill(Warp* own) {
  MR_WARP_BARRIER();
  mr_fill(own, own->stage);
  own->stage += PANEL_STAGE;
  if (own->stage == own->ring + STAGES * PANEL_STAGE) own->stage = own->ring;
}

// Multiplies a stage, whose first block has the operands a[0], and leaves the stage before it.
// While the unit multiplies a block, the operands of the next are made, which for the last block is
// the first of the stage that follows, be it of another tile; after the last stage of all, what is
// made is never used. Nothing here may depend on the stage, but for the blocks of a last one that
// is not whole: the unit does not run on where its registers are set in a branch. `panel` is that
// of this stage, `next_panel` that of the stage that follows.
MR_GROUP_INLINE void mr_multiply_stage(float* acc, uint a[2][2][4], Warp* own,
                                       __global const uchar* panel,
                                       __global const uchar* next_panel, uint step) {
  const uint arrived = own->memory + BARRIERS_AT + 8 * own->x_stage;
  mr_wait_for_phase(arrived, own->phase);
  const ulong columns = mr_columns(own->memory + own->x_stage * X_BYTES);
  MR_WGMMA_BEGIN();
  MR_EACH(j, 2) MR_WGMMA(acc, a[0][j], columns + j * 2);
  MR_WGMMA_BEGUN();
  MR_WGMMA_WAIT_FOR_EARLIER();
  if (own->leaves != 0) mr_arrive(own->leaves);
  own->leaves = own->lane == 0 ? arrived + 8 * STAGES : 0;
  if (MR_EXISTS(step, 1)) {
    mr_operands(a[1], own->stage, panel, 1, own->lane);
    MR_WGMMA_BEGIN();
    MR_EACH(j, 2) MR_WGMMA(acc, a[1][j], columns + 4 + j * 2);
    MR_WGMMA_BEGUN();
  }
  mr_refill(own);
  mr_wait_for_panel();
  if (MR_EXISTS(step, 1)) {
    MR_WGMMA_WAIT_FOR_EARLIER();
  } else {
    MR_WGMMA_WAIT(acc);
  }
  mr_operands(a[0], own->stage, next_panel, 0, own->lane);
  if (++own->x_stage == STAGES) {
    own->x_stage = 0;
    own->phase ^= 1;
  }
}

__kernel __attribute__((reqd_work_group_size(32, TILE_PANELS + 1, 1)))
void MR_PRODUCT(__global const uchar* weight, __global const uchar* x, __global float* out,
                __global const float* bias, uint panels, uint columns, uint out_stride,
                uint out_row, uint mode MR_RAGGED_PARAMETERS) {
  __local __attribute__((aligned(1024))) uchar local_memory[LOCAL_BYTES];
  const uint lane = (uint)get_local_id(0), warp = (uint)get_local_id(1);
  const uint memory = (uint)(size_t)local_memory;
  const Tiles tiles = MR_TILES(panels, columns, TILE_PANELS, TILE_COLUMNS);
  if (RAGGED && tiles.count == 0) return;
  if (warp == 0 && lane == 0) {
    for (uint i = 0; i < STAGES; ++i) {
      mr_barrier_init(memory + BARRIERS_AT + 8 * i, 1);
      mr_barrier_init(memory + LEFT_AT + 8 * i, TILE_PANELS);
    }
    MR_BARRIERS_MADE();
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (warp == TILE_PANELS) {
    if (lane == 0) mr_copy_tiles(memory, x, tiles);
    return;
  }
  Warp own;
  own.weight = weight;
  own.tiles = tiles;
  own.warp = warp;
  own.lane = lane;
  own.memory = memory;
  own.ring = (__local uint4*)(local_memory + PANELS_AT) + warp * (STAGES * PANEL_STAGE);
  own.stage = own.ring;
  own.x_stage = 0;
  own.phase = 0;
  own.leaves = 0;
  own.filled_tile = (uint)get_group_id(0);
  own.filled_step = 0;
  own.filled = mr_stages_of(mr_panel_of(&own, own.filled_tile), lane);
  for (uint i = 0; i < STAGES; ++i) mr_fill(&own, own.ring + i * PANEL_STAGE);
  // Operands of two blocks, because the unit reads those of the block before.
  uint a[2][2][4];
  mr_wait_for_panel();
  mr_operands(a[0], own.stage, mr_panel_of(&own, (uint)get_group_id(0)), 0, lane);
  for (uint tile = (uint)get_group_id(0); tile < tiles.count; tile += (uint)get_num_groups(0)) {
    const Tile at = mr_tile(&tiles, tile);
    const uint number = at.panel + warp;
    __global const uchar* panel = mr_panel_of(&own, tile);
    __global const uchar* next_panel = mr_panel_of(&own, tile + (uint)get_num_groups(0));
    float acc[TILE_SUMS];
    MR_EACH(i, TILE_SUMS) acc[i] = 0.0f;
    _Pragma("unroll 1") for (uint step = 0; step < STEPS; ++step) {
      mr_multiply_stage(acc, a, &own, panel, step + 1 < STEPS ? panel : next_panel, step);
    }
    MR_WGMMA_WAIT(acc);
    if (number < panels) {
      mr_store_tiles(acc, TILE_COLUMNS / 8, out, MR_TILE_BIAS(bias, at),
                     out_row + number * 16 + lane / 4, at.column + 2 * (lane % 4), at.end,
                     out_stride, mode);
    }
  }
}
