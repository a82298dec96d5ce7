// rope_kv (rope/generic.cl has arguments and contract, and the same bits) where a side is packed,
// for devices whose work-items run side by side in narrow lanes: those of a group encode a head
// together. One that encodes alone takes a chain of thousands of instructions.
//
//   launch groups (HEADS + 2 * KV_HEADS, tokens) of ROW_ITEMS work-items: queries, keys, values
//
// With TURN_QUERIES, keys are rotated codes, and so are queries: H (signs * q), as attention in
// levels reads them (attention/nvidia_levels.cl).
//
// A page's values share words, of which a work-item changes its own bits, atomically.
// Limit: barriers, of which a head takes some twenty.
#include "attention/heads.cl"
#include "attention/turn.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"
#include "rope/lanes.cl"
#include "rope/pairs.cl"
#include "rope/turn.cl"
#include "step/table.cl"

#ifndef TURN_QUERIES
#define TURN_QUERIES 0
#endif

#if KEY_KIND == KV_ROTATED
#define MR_FLIPPED_KEY(x, d) mr_flipped(x, mr_signs_key, d)
#else
#define MR_FLIPPED_KEY(x, d) x
#endif
#if VALUE_KIND == KV_ROTATED
#define MR_FLIPPED_VALUE(x, d) mr_flipped(x, mr_signs_value, d)
#else
#define MR_FLIPPED_VALUE(x, d) x
#endif

#define KEYS 1
#include "rope/pack_lanes.cl"
#undef KEYS
#define KEYS 0
#include "rope/pack_lanes.cl"
#undef KEYS

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void rope_kv(__global float* qkv, __global const float2* rope, __global const float* means,
             __global uchar* kv, __global const uint* step, uint positions, uint tables,
             uint qkv_stride) {
  __local float x[HEAD_DIM];  // a head's channels
  __local uint codes[HEAD_DIM];
  __local float sums[LANES / 16 * 48];  // what work-items add up
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
      from[a] = x[a] = turned.x;
      from[b] = x[b] = turned.y;
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
  for (uint d = lane; rotates && d < HEAD_DIM; d += LANES) {
    x[d] = is_value ? MR_FLIPPED_VALUE(x[d], d) : MR_FLIPPED_KEY(x[d], d);
  }
  mr_turn_rows(x, rotates, lane, LANES);
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
