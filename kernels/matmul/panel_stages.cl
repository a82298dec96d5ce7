#pragma once
// Copies stages of panels of weights to local memory, where operands.cl reads them: a warp copies
// those of its own panels. A stage has STAGE_BLOCKS blocks: their codes, or halves; then their
// scales; then the halves that steps multiply (half_stage.h).
#include "matmul/half_stage.h"
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/operands.cl"

// The turns in which so many work-items share `count` vectors, and whether there is an i for each.
#define MR_TURNS(count, items) (((count) + (items) - 1) / (items))
#define MR_SHARED(i, count, items) ((count) % (items) == 0 || (i) < (count))

// Vectors that exist together: those of a block, or of a unit of two.
#define COPIED_VECTORS (UNIT_ROWS ? 2 * BLOCK_VECTORS : BLOCK_VECTORS)

// Where a lane reads the next stage of a panel.
typedef struct {
  __global const uint4 *codes, *scales, *halves;
} StageSource;

MR_GROUP_INLINE StageSource mr_stages_of(__global const uchar* panel, uint lane) {
  StageSource out;
#if SCALE_SIZE > 0
  out.codes = (__global const uint4*)(panel + CODES_AT) + lane;
  out.scales = (__global const uint4*)(panel + SCALES_AT) + lane;
  out.halves = (__global const uint4*)(panel + HALVES_AT) + lane;
#else
  out.codes = (__global const uint4*)panel + lane;
  out.scales = out.codes;
  out.halves = out.codes;
#endif
  return out;
}

// Begins to copy a stage of a panel.
MR_GROUP_INLINE void mr_copy_from(__local uint4* to, StageSource from, uint step, uint lane) {
  to += lane;
  MR_EACH(turn, MR_TURNS(STAGE_BLOCKS * BLOCK_VECTORS, 32)) {
    const uint i = turn * 32 + lane;
    if (MR_SHARED(i, STAGE_BLOCKS * BLOCK_VECTORS, 32) &&
        MR_EXISTS(step, i / COPIED_VECTORS * (COPIED_VECTORS / BLOCK_VECTORS))) {
      mr_copy16(to + turn * 32, from.codes + turn * 32);
    }
  }
#if SCALE_SIZE > 0
  MR_EACH(turn, MR_TURNS(STAGE_BLOCKS * SCALE_VECTORS, 32)) {
    const uint i = turn * 32 + lane;
    if (MR_SHARED(i, STAGE_BLOCKS * SCALE_VECTORS, 32) && MR_EXISTS(step, i / SCALE_VECTORS)) {
      mr_copy16(to + STAGE_SCALES + turn * 32, from.scales + turn * 32);
    }
  }
#endif
#if SCALE_SIZE == 1
  if (lane < STEP_VECTORS) mr_copy16(to + STAGE_STEPS, from.halves);
#endif
}

// Goes on from stage `step` to the next.
MR_GROUP_INLINE void mr_next_source(StageSource* from, uint step) {
  from->codes += STAGE_BLOCKS * BLOCK_VECTORS;
#if SCALE_SIZE > 0
  from->scales += STAGE_BLOCKS * SCALE_VECTORS;
#endif
#if SCALE_SIZE == 1
  if ((step + 1) * STAGE_BLOCKS % 8 == 0) from->halves += STEP_VECTORS;
#endif
}

// Begins to copy stage `step` of a panel.
MR_GROUP_INLINE void mr_copy_panel(__local uint4* to, __global const uchar* panel, uint step,
                                   uint lane) {
  StageSource from = mr_stages_of(panel, lane);
  from.codes += step * (STAGE_BLOCKS * BLOCK_VECTORS);
#if SCALE_SIZE > 0
  from.scales += step * (STAGE_BLOCKS * SCALE_VECTORS);
#endif
#if SCALE_SIZE == 1
  from.halves += step * STAGE_BLOCKS / 8 * STEP_VECTORS;
#endif
  mr_copy_from(to, from, step, lane);
}
