#pragma once
// Rotates one head in vectors, for the cpu family, with the same bits as rope/generic.cl.
#include "attention/heads.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"
#include "kv/vectors.cl"
#include "rope/pairs.cl"

// Rotates x[HEAD_DIM] into `out`; `turns` is the position's row of the rotary table.
static inline void mr_rotate_head(__global const float* x, __global const float* turns,
                                  float* out) {
#if ROPE_HALVES
  const uint pairs = ROPE_DIM / 2;
  uint i = 0;
  for (; i + 16 <= pairs; i += 16) {
    const float16 a = mr_load16(x + i), b = mr_load16(x + pairs + i);
    const float16 low = mr_load16(turns + 2 * i), high = mr_load16(turns + 2 * i + 16);
    const float16 cosine = (float16)(low.even, high.even), sine = (float16)(low.odd, high.odd);
    mr_put16(fma(a, cosine, -(b * sine)), out + i);
    mr_put16(fma(a, sine, b * cosine), out + pairs + i);
  }
  for (; i < pairs; ++i) {
    const float a = x[i], b = x[i + pairs], cosine = turns[2 * i], sine = turns[2 * i + 1];
    out[i] = fma(a, cosine, -(b * sine));
    out[i + pairs] = fma(a, sine, b * cosine);
  }
#else
  // Lanes are (a, b) pairs beside (cosine, sine) pairs: both results are fma(a, turn, b * other).
  const float16 sign = (float16)(-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1);
  uint i = 0;
  for (; i + 16 <= ROPE_DIM; i += 16) {
    const float16 v = mr_load16(x + i), turn = mr_load16(turns + i);
    const float16 other = turn.s1032547698badcfe * sign;
    mr_put16(fma(v.s0022446688aaccee, turn, v.s1133557799bbddff * other), out + i);
  }
  for (; i < ROPE_DIM; i += 2) {
    const float a = x[i], b = x[i + 1], cosine = turns[i], sine = turns[i + 1];
    out[i] = fma(a, cosine, -(b * sine));
    out[i + 1] = fma(a, sine, b * cosine);
  }
#endif
  for (uint d = ROPE_DIM; d < HEAD_DIM; ++d) out[d] = x[d];
}

// Rotates a token's key of one KV head and writes its key and value to the place of `position` in
// `page`. `means` is read only if keys are centered.
static inline void mr_store_token(__global const float* row, __global const float* rope,
                                  __global const float* means, __global uchar* kv, uint page,
                                  uint position, uint kv_head) {
  const uint slot = position % PAGE_TOKENS;
  float16 key[CHANNEL_BLOCKS];
  mr_rotate_head(row + K_ROW + kv_head * HEAD_DIM, rope + (size_t)position * ROPE_DIM,
                 (float*)key);
#if KEY_CENTERED
  __global const float* mean = mr_means_at(means, position) + kv_head * HEAD_DIM;
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) key[c] = key[c] - mr_load16(mean + c * 16);
#endif
#if KEY_KIND == KV_PLAIN
  __global MR_KEY(MrNumber)* keys =
      (__global MR_KEY(MrNumber)*)(kv + mr_keys_at(page, kv_head)) + slot;
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
    const MR_KEY(MrNumbers) numbers = MR_KEY(mr_numbers)(key[c]);
    const MR_KEY(MrNumber)* lanes = (const MR_KEY(MrNumber)*)&numbers;
    _Pragma("unroll") for (uint i = 0; i < 16; ++i) keys[(c * 16 + i) * PAGE_TOKENS] = lanes[i];
  }
#else
  mr_pack_key(key, kv + mr_keys_at(page, kv_head), kv + mr_key_parameters_at(page, kv_head), slot);
#endif
#if !VALUES_IN_KEYS
  __global const float* value = row + V_ROW + kv_head * HEAD_DIM;
#if VALUE_KIND == KV_PLAIN
  __global MR_VALUE(MrNumber)* values =
      (__global MR_VALUE(MrNumber)*)(kv + mr_values_at(page, kv_head)) + slot * HEAD_DIM;
  for (uint d = 0; d < HEAD_DIM; d += 16) {
    *(__global MR_VALUE(MrNumbers)*)(values + d) = MR_VALUE(mr_numbers)(mr_load16(value + d));
  }
#else
  float16 channels[CHANNEL_BLOCKS];
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) channels[c] = mr_load16(value + c * 16);
  mr_pack_value(channels, kv + mr_values_at(page, kv_head),
                kv + mr_value_parameters_at(page, kv_head), slot);
#endif
#endif
}
