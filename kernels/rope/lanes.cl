#pragma once
// What the work-items of a group that encode a head together share (pack_lanes.cl).
#include "attention/heads.cl"
#include "common/prelude.cl"

#define LANES 32
#define LANE_CHANNELS (HEAD_DIM / LANES)

// What mr_sum16 makes of sums that 16 lanes have.
MR_GROUP_INLINE float mr_lane_sum(__local float* sums, float own, uint lane) {
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane < 16) sums[lane] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  return mr_sum16(vload16(0, sums));
}
