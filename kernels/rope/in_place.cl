// Rotates queries and keys in place, for layers that norm them after the rotation. Attention then
// has ROPE_DIM 0. generic.cl defines the rounding.
//
//   qkv    float [tokens][qkv_stride]: HEADS queries, from K_ROW on KV_HEADS keys, HEAD_DIM each
//   rope   float [positions][TURN_DIM / 2][2]: cosine, sine
//   step   uint: per token its position, from `positions` on
//   launch one group of ROW_ITEMS work-items per head of queries or keys: groups (HEADS + KV_HEADS,
//          tokens)
// TURN_HALVES 0 rotates pairs (2i, 2i+1), 1 rotates (i, i + TURN_DIM/2). Limit: memory, of which it
// moves little.
#include "attention/heads.cl"
#include "common/prelude.cl"

#ifndef TURN_DIM
#define TURN_DIM HEAD_DIM
#endif
#ifndef TURN_HALVES
#define TURN_HALVES 0
#endif

static inline void mr_turn_head(__global float* row, __global const float* turns, uint head) {
  __global float* x = row + (head < HEADS ? head * HEAD_DIM : K_ROW + (head - HEADS) * HEAD_DIM);
  for (uint i = ROW_ITEM; i < TURN_DIM / 2; i += ROW_ITEMS) {
#if TURN_HALVES
    const uint first = i, second = i + TURN_DIM / 2;
#else
    const uint first = 2 * i, second = 2 * i + 1;
#endif
    const float a = x[first], b = x[second], cosine = turns[2 * i], sine = turns[2 * i + 1];
    x[first] = fma(a, cosine, -(b * sine));
    x[second] = fma(a, sine, b * cosine);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void turn_heads(__global float* qkv, __global const float* rope, __global const uint* step,
                uint positions, uint qkv_stride) {
  const uint token = (uint)get_group_id(1);
  mr_turn_head(qkv + (size_t)token * qkv_stride,
               rope + (size_t)step[positions + token] * TURN_DIM, (uint)get_group_id(0));
}
