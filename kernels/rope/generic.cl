// Rotates queries in place, rotates keys, and writes keys and values of a step into their pages.
//
//   qkv    float [tokens][qkv_stride]: HEADS queries, from K_ROW on KV_HEADS keys, from V_ROW on
//          KV_HEADS values, HEAD_DIM each
//   rope   float [positions][ROPE_DIM / 2][2]: cosine, sine
//   kv     the layer's pages, see kv/layout.cl
//   step   uint: per token its position (from `positions` on) and where its sequence's page table
//          begins in `step` (from `tables` on)
//   launch one work-item a token, local (1)
//
// ROPE_HALVES 0 rotates pairs (2i, 2i+1), 1 rotates (i, i + ROPE_DIM/2); channels from ROPE_DIM on
// stay as they are. a' = fma(a, cos, -(b*sin)), b' = fma(a, sin, b*cos).
// Limit: memory, little of it.
static inline float2 mr_rotate(float a, float b, float2 turn) {
  return (float2)(fma(a, turn.x, -(b * turn.y)), fma(a, turn.y, b * turn.x));
}

static inline void mr_rotate_head(__global float* x, __global const float2* turns) {
  for (uint i = 0; i < ROPE_DIM / 2; ++i) {
#if ROPE_HALVES
    const uint a = i, b = i + ROPE_DIM / 2;
#else
    const uint a = 2 * i, b = 2 * i + 1;
#endif
    const float2 turned = mr_rotate(x[a], x[b], turns[i]);
    x[a] = turned.x;
    x[b] = turned.y;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void rope_kv(__global float* qkv, __global const float2* rope, __global half* kv,
             __global const uint* step, uint positions, uint tables, uint qkv_stride) {
  const uint token = (uint)get_group_id(0);
  const uint position = step[positions + token];
  const uint page = step[step[tables + token] + position / PAGE_TOKENS];
  const uint slot = position % PAGE_TOKENS;
  __global float* row = qkv + (size_t)token * qkv_stride;
  __global const float2* turns = rope + (size_t)position * (ROPE_DIM / 2);
  for (uint h = 0; h < HEADS; ++h) mr_rotate_head(row + h * HEAD_DIM, turns);
  for (uint g = 0; g < KV_HEADS; ++g) {
    __global float* key = row + K_ROW + g * HEAD_DIM;
    __global const float* value = row + V_ROW + g * HEAD_DIM;
    __global half* keys = kv + mr_keys_at(page, g) + slot;
    __global half* values = kv + mr_values_at(page, g) + slot * HEAD_DIM;
    mr_rotate_head(key, turns);
    for (uint d = 0; d < HEAD_DIM; ++d) {
      vstore_half_rte(clamp(key[d], -65504.0f, 65504.0f), d * PAGE_TOKENS, keys);
      vstore_half_rte(clamp(value[d], -65504.0f, 65504.0f), d, values);
    }
  }
}
