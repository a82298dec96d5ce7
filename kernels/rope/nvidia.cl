// rope_kv (rope/generic.cl has arguments and contract, and the same bits) where a side is packed,
// for devices whose work-items run side by side in narrow lanes: those of a group encode a head
// together. One that encodes alone takes a chain of thousands of instructions.
//
//   launch groups (HEADS + 2 * KV_HEADS, tokens) of 32 work-items: queries, keys, values
//
// With TURN_QUERIES, keys are rotated codes, and so are queries: H (signs * q), as attention in
// levels reads them (attention/nvidia_levels.cl).
//
// A page's values share words, of which a work-item changes its own bits, atomically.
// Limit: instructions. Groups of one warp wait for no other.
#include "attention/heads.cl"
#include "attention/turn.cl"
#include "attention/warp.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"
#include "matmul/mma.cl"
#include "rope/lanes.cl"
#include "rope/pairs.cl"
#include "rope/turn.cl"
#include "step/table.cl"

#ifndef TURN_QUERIES
#define TURN_QUERIES 0
#endif

#define KEYS 1
#include "rope/pack_lanes.cl"
#undef KEYS
#define KEYS 0
#include "rope/pack_lanes.cl"
#undef KEYS

#if KEY_KIND == KV_ROTATED || VALUE_KIND == KV_ROTATED
// x, negated where the side's signs say so.
static inline float mr_signed(float x, int is_value, uint d) {
#if VALUE_KIND == KV_ROTATED
  if (is_value) return mr_flipped(x, mr_signs_value, d);
#endif
#if KEY_KIND == KV_ROTATED
  if (!is_value) return mr_flipped(x, mr_signs_key, d);
#endif
  return x;
}

// Multiplies signs * x by H, by the additions of mr_hadamard (kv/planes.cl), if the head `rotates`.
// A work-item has neighbours, so the first steps are its own, and the others exchanges.
MR_GROUP_INLINE void mr_turn_head(__local float* x, int is_value, int rotates,
                                  uint lane MR_QUAD_PARAMETER) {
  float own[LANE_CHANNELS];
  MR_EACH(i, LANE_CHANNELS) {
    own[i] = mr_signed(x[lane * LANE_CHANNELS + i], is_value, lane * LANE_CHANNELS + i);
  }
  for (uint h = 1; h < LANE_CHANNELS; h *= 2) {
    MR_EACH(i, LANE_CHANNELS) {
      if ((i & h) == 0) {
        const float a = own[i], b = own[i + h];
        own[i] = a + b;
        own[i + h] = a - b;
      }
    }
  }
  MR_UNIT_EACH(step, 5) {
    const uint distance = 1u << step;
    const float sign = (lane & distance) != 0 ? -1.0f : 1.0f;
    MR_UNIT_EACH(i, LANE_CHANNELS) {
      own[i] = fma(own[i], sign, as_float(mr_other(as_uint(own[i]), distance)));
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  MR_EACH(i, LANE_CHANNELS) {
    if (rotates) x[lane * LANE_CHANNELS + i] = own[i];
  }
}
#endif

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void rope_kv(__global float* qkv, __global const float2* rope, __global const float* means,
             __global uchar* kv, __global const uint* step, uint positions, uint tables,
             uint qkv_stride) {
  __local float x[HEAD_DIM];  // a head's channels
  __local uint codes[HEAD_DIM];
  __local float sums[LANES / 16 * 48];  // what work-items add up
#if KEY_KIND == KV_ROTATED || VALUE_KIND == KV_ROTATED
  MR_QUAD_MEMORY
#endif
  const uint index = (uint)get_group_id(0), token = (uint)get_group_id(1);
  const uint lane = (uint)get_local_id(0);
  const uint position = step[positions + token];
  __global float* row = qkv + (size_t)token * qkv_stride;
  const int is_value = index >= HEADS + KV_HEADS;
  const uint g = is_value ? index - HEADS - KV_HEADS : index < HEADS ? 0 : index - HEADS;
  __global float* from =
      row + (is_value         ? V_ROW + g * HEAD_DIM
             : index >= HEADS ? K_ROW + g * HEAD_DIM
                              : index * HEAD_DIM);
  __global const float2* turns = rope + (size_t)position * (ROPE_DIM / 2);
  for (uint d = lane; d < HEAD_DIM; d += LANES) x[d] = from[d];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!is_value) {
    for (uint i = lane; i < ROPE_DIM / 2; i += LANES) {
#if ROPE_HALVES
      const uint a = i, b = i + ROPE_DIM / 2;
#else
      const uint a = 2 * i, b = 2 * i + 1;
#endif
      const float2 turned = mr_rotate(x[a], x[b], turns[i]);
      x[a] = turned.x;
      x[b] = turned.y;
      if (TURN_QUERIES && index < HEADS) continue;  // is written once it has turned
      from[a] = turned.x;
      from[b] = turned.y;
    }
  }
#if KEY_CENTERED
  barrier(CLK_LOCAL_MEM_FENCE);
  if (index >= HEADS && !is_value) {
    __global const float* mean = mr_means_at(means, position) + g * HEAD_DIM;
    for (uint d = lane; d < HEAD_DIM; d += LANES) from[d] = x[d] = x[d] - mean[d];
  }
#endif
  // No barrier stands in a branch but in the last one, which PoCL needs.
  float own = 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint d = lane; lane < 16 && d < HEAD_DIM; d += 16) own = fma(x[d], x[d], own);
  const float square = mr_lane_sum(sums, own, lane);
  const int rotates = is_value ? VALUE_KIND == KV_ROTATED
                               : KEY_KIND == KV_ROTATED && (TURN_QUERIES || index >= HEADS);
#if KEY_KIND == KV_ROTATED || VALUE_KIND == KV_ROTATED
  if (!MATRIX_UNIT || rotates) mr_turn_head(x, is_value, rotates, lane MR_QUAD_ARGUMENT);
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  if (index < HEADS) {
    for (uint d = lane; rotates && d < HEAD_DIM; d += LANES) from[d] = x[d];
    return;
  }
  const uint page = mr_own_page(step, positions, tables, token), slot = position % PAGE_TOKENS;
  if (is_value) {
    mr_pack_lanes_value(x, codes, sums, kv + mr_values_at(page, g),
                        kv + mr_value_parameters_at(page, g), square, slot, lane);
  } else {
    mr_pack_lanes_key(x, codes, sums, kv + mr_keys_at(page, g), kv + mr_key_parameters_at(page, g),
                      square, slot, lane);
  }
}
