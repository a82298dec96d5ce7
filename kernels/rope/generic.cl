// Rotates queries in place, rotates keys, and writes keys and values of a step into their pages.
//
//   qkv    float [tokens][qkv_stride]: HEADS queries, from K_ROW on KV_HEADS keys, from V_ROW on
//          KV_HEADS values, HEAD_DIM each
//   rope   float [positions][ROPE_DIM / 2][2]: cosine, sine
//   means  with KEY_CENTERED, float [segments][KV_HEADS][HEAD_DIM]: subtracted from rotated keys
//   kv     the layer's pages, see kv/layout.cl
//   step   the step table, with `positions` and `tables` of the layer's cache group (step/table.cl)
//   launch one group of ROW_ITEMS work-items per head of queries or keys: groups (HEADS + KV_HEADS,
//          tokens)
//
// Pairs (a, b) of channels (pairs.cl) become a' = fma(a, cos, -(b*sin)), b' = fma(a, sin, b*cos).
// One work-item encodes a packed key, another the value (kv/codec.cl). Limit: memory, of which it
// moves little.
#include "attention/heads.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/codecs.cl"
#include "rope/pairs.cl"
#include "rope/turn.cl"
#include "step/table.cl"

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void rope_kv(__global float* qkv, __global const float2* rope, __global const float* means,
             __global uchar* kv, __global const uint* step, uint positions, uint tables,
             uint qkv_stride) {
  const uint head = (uint)get_group_id(0), token = (uint)get_group_id(1);
  const int is_key = head >= HEADS;
  const uint g = is_key ? head - HEADS : 0;
  const uint position = step[positions + token];
  const uint page = mr_own_page(step, positions, tables, token);
  const uint slot = position % PAGE_TOKENS;
  __global float* row = qkv + (size_t)token * qkv_stride;
  __global float* x = row + (is_key ? K_ROW + g * HEAD_DIM : head * HEAD_DIM);
  __global const float2* turns = rope + (size_t)position * (ROPE_DIM / 2);
  for (uint i = ROW_ITEM; i < ROPE_DIM / 2; i += ROW_ITEMS) {
#if ROPE_HALVES
    const uint a = i, b = i + ROPE_DIM / 2;
#else
    const uint a = 2 * i, b = 2 * i + 1;
#endif
    const float2 turned = mr_rotate(x[a], x[b], turns[i]);
    x[a] = turned.x;
    x[b] = turned.y;
  }
  if (!is_key) return;
  barrier(CLK_GLOBAL_MEM_FENCE);
#if KEY_CENTERED
  __global const float* mean = mr_means_at(means, position) + g * HEAD_DIM;
  for (uint d = ROW_ITEM; d < HEAD_DIM; d += ROW_ITEMS) x[d] = x[d] - mean[d];
  barrier(CLK_GLOBAL_MEM_FENCE);
#endif
#if KEY_KIND == KV_PLAIN
  __global MR_KEY(MR_NUMBER)* keys =
      (__global MR_KEY(MR_NUMBER)*)(kv + mr_keys_at(page, g)) + slot;
  for (uint d = ROW_ITEM; d < HEAD_DIM; d += ROW_ITEMS) {
    MR_KEY(mr_store)(x[d], keys, d * PAGE_TOKENS);
  }
#else
  if (ROW_ITEM == 0) {
    float16 key[CHANNEL_BLOCKS];
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) key[c] = vload16(c, x);
    mr_pack_key(key, kv + mr_keys_at(page, g), kv + mr_key_parameters_at(page, g), slot);
  }
#endif
#if !VALUES_IN_KEYS
  __global const float* value = row + V_ROW + g * HEAD_DIM;
#if VALUE_KIND == KV_PLAIN
  __global MR_VALUE(MR_NUMBER)* values =
      (__global MR_VALUE(MR_NUMBER)*)(kv + mr_values_at(page, g)) + slot * HEAD_DIM;
  for (uint d = ROW_ITEM; d < HEAD_DIM; d += ROW_ITEMS) {
    MR_VALUE(mr_store)(value[d], values, d);
  }
#else
  if (ROW_ITEM == ROW_ITEMS - 1) {
    float16 channels[CHANNEL_BLOCKS];
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) channels[c] = vload16(c, value);
    mr_pack_value(channels, kv + mr_values_at(page, g), kv + mr_value_parameters_at(page, g),
                  slot);
  }
#endif
#endif
}
