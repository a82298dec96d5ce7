// Rotation of one head in vectors, for the cpu family; the same bits as rope/generic.cl.
//
// Defines: ROPE_DIM, ROPE_HALVES, K_ROW, V_ROW as there.

// Rotates x[HEAD_DIM] into `out`; `turns` is the position's row of the rotary table.
static inline void mr_rotate_head(__global const float* x, __global const float* turns,
                                  float* out) {
#if ROPE_HALVES
  const uint pairs = ROPE_DIM / 2;
  uint i = 0;
  for (; i + 16 <= pairs; i += 16) {
    const float16 a = vload16(0, x + i), b = vload16(0, x + pairs + i);
    const float16 low = vload16(0, turns + 2 * i), high = vload16(1, turns + 2 * i);
    const float16 cosine = (float16)(low.even, high.even), sine = (float16)(low.odd, high.odd);
    vstore16(fma(a, cosine, -(b * sine)), 0, out + i);
    vstore16(fma(a, sine, b * cosine), 0, out + pairs + i);
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
    const float16 v = vload16(0, x + i), turn = vload16(0, turns + i);
    const float16 other = turn.s1032547698badcfe * sign;
    vstore16(fma(v.s0022446688aaccee, turn, v.s1133557799bbddff * other), 0, out + i);
  }
  for (; i < ROPE_DIM; i += 2) {
    const float a = x[i], b = x[i + 1], cosine = turns[i], sine = turns[i + 1];
    out[i] = fma(a, cosine, -(b * sine));
    out[i + 1] = fma(a, sine, b * cosine);
  }
#endif
  for (uint d = ROPE_DIM; d < HEAD_DIM; ++d) out[d] = x[d];
}

// Sixteen floats to the nearest halves, ties to even, kept within +-65504.
static inline ushort16 mr_to_half16(float16 x) {
  ushort16 out;
  vstore_half16_rte(clamp(x, (float16)(-65504.0f), (float16)(65504.0f)), 0, (half*)&out);
  return out;
}

// Rotates a token's key of one KV head and writes its key and value where `page` keeps `slot`.
static inline void mr_store_token(__global const float* row, __global const float* turns,
                                  __global ushort* kv, uint page, uint slot, uint kv_head) {
  float key[HEAD_DIM];
  mr_rotate_head(row + K_ROW + kv_head * HEAD_DIM, turns, key);
  __global const float* value = row + V_ROW + kv_head * HEAD_DIM;
  __global ushort* keys = kv + mr_keys_at(page, kv_head) + slot;
  __global ushort* values = kv + mr_values_at(page, kv_head) + slot * HEAD_DIM;
  for (uint d = 0; d < HEAD_DIM; d += 16) {
    ushort lanes[16];
    vstore16(mr_to_half16(vload16(0, key + d)), 0, lanes);
    for (uint i = 0; i < 16; ++i) keys[(d + i) * PAGE_TOKENS] = lanes[i];
    vstore16(mr_to_half16(vload16(0, value + d)), 0, values + d);
  }
}
