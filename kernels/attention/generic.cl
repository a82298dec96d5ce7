// Causal attention of a step's queries over their sequences' pages (kv/layout.cl).
//
//   out[token][head] = sum over keys j <= position of softmax(scale * q.k_j) v_j
//
//   qkv   float [tokens][qkv_stride], queries rotated; out float [tokens][out_stride]
//   step  uint: positions and page tables as for rope_kv; `items` of 2 words, see cpu.cl
//
// Contract, the same in every variant and for every way to cut tokens into items or steps:
//   keys are taken in segments of 256 at absolute positions 0, 256, ... For one segment:
//     s_j  = sum over channels, ascending, by fma from 0, of (q * scale) * k_j
//     m    = largest s_j;  e_j = mr_exp(s_j - m)
//     l    = lane j % 16 adds its e_j in order of j; then mr_sum16
//     a    = sum over j ascending, by fma from 0, of e_j * v_j
//   segments are merged left to right into (M, L, A), which begins as the first segment's:
//     M' = max(M, m);  f = mr_exp(M - M');  g = mr_exp(m - M')
//     L' = fma(L, f, l * g);  A' = fma(A, f, a * g)
//   out = A * mr_recip(L)
//
// Plain form: a group of 64 work-items a head and token, groups (HEADS, tokens): each has some of a
// segment's keys, and then some of the channels.
// Limit: memory; meant as the reference.
#define ITEMS 64
#define OWN_CHANNELS ((HEAD_DIM + ITEMS - 1) / ITEMS)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void attention(__global const float* qkv, __global const half* kv, __global const uint* step,
               __global float* out, uint positions, uint tables, uint qkv_stride, uint out_stride,
               float scale) {
  __local float q[HEAD_DIM], e[SEGMENT_TOKENS], fold[ITEMS];
  const uint item = (uint)get_local_id(0);
  const uint head = (uint)get_group_id(0), token = (uint)get_group_id(1), kv_head = head / GROUP;
  const uint position = step[positions + token];
  __global const uint* table = step + step[tables + token];
  __global const float* query = qkv + (size_t)token * qkv_stride + head * HEAD_DIM;
  for (uint d = item; d < HEAD_DIM; d += ITEMS) q[d] = query[d] * scale;
  barrier(CLK_LOCAL_MEM_FENCE);
  float total[OWN_CHANNELS], top = 0.0f, mass = 0.0f;
  for (uint start = 0; start <= position; start += SEGMENT_TOKENS) {
    const uint count = min(position + 1 - start, (uint)SEGMENT_TOKENS);
    float own = -INFINITY;
    for (uint j = item; j < count; j += ITEMS) {
      const uint at = start + j;
      __global const half* keys =
          kv + mr_keys_at(table[at / PAGE_TOKENS], kv_head) + at % PAGE_TOKENS;
      float s = 0.0f;
      for (uint d = 0; d < HEAD_DIM; ++d) s = fma(q[d], vload_half(d * PAGE_TOKENS, keys), s);
      e[j] = s;
      own = fmax(own, s);
    }
    fold[item] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint width = ITEMS / 2; width > 0; width /= 2) {
      if (item < width) fold[item] = fmax(fold[item], fold[item + width]);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float m = fold[0];
    for (uint j = item; j < count; j += ITEMS) e[j] = mr_exp(e[j] - m);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 16) {
      float lane = 0.0f;
      for (uint j = item; j < count; j += 16) lane = lane + e[j];
      fold[item] = lane;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float l = mr_sum16(vload16(0, fold));
    const float merged = start == 0 ? m : fmax(top, m);
    const float f = mr_exp(top - merged), g = mr_exp(m - merged);
    for (uint i = 0; i < OWN_CHANNELS; ++i) {
      const uint d = item + i * ITEMS;
      if (d >= HEAD_DIM) break;
      float a = 0.0f;
      for (uint j = 0; j < count; ++j) {
        const uint at = start + j;
        __global const half* values = kv + mr_values_at(table[at / PAGE_TOKENS], kv_head) +
                                      at % PAGE_TOKENS * HEAD_DIM;
        a = fma(e[j], vload_half(d, values), a);
      }
      total[i] = start == 0 ? a : fma(total[i], f, a * g);
    }
    mass = start == 0 ? l : fma(mass, f, l * g);
    top = merged;
    barrier(CLK_LOCAL_MEM_FENCE);  // all have read e and fold
  }
  out += (size_t)token * out_stride + head * HEAD_DIM;
  const float inverse = mr_recip(mass);
  for (uint i = 0; i < OWN_CHANNELS; ++i) {
    const uint d = item + i * ITEMS;
    if (d < HEAD_DIM) out[d] = total[i] * inverse;
  }
}
