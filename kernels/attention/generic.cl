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
// Plain form: one work-item a token and head, local (16), groups (tokens * HEADS / 16, rounded up).
// Limit: memory; meant as the reference.
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void attention(__global const float* qkv, __global const half* kv, __global const uint* step,
               __global float* out, uint positions, uint tables, uint tokens, uint qkv_stride,
               uint out_stride, float scale) {
  const uint id = (uint)get_global_id(0);
  if (id >= tokens * HEADS) return;
  const uint token = id / HEADS, head = id % HEADS, kv_head = head / GROUP;
  const uint position = step[positions + token];
  __global const uint* table = step + step[tables + token];
  __global const float* query = qkv + (size_t)token * qkv_stride + head * HEAD_DIM;
  float q[HEAD_DIM], total[HEAD_DIM], e[SEGMENT_TOKENS];
  for (uint d = 0; d < HEAD_DIM; ++d) q[d] = query[d] * scale;
  float top = 0.0f, mass = 0.0f;
  for (uint start = 0; start <= position; start += SEGMENT_TOKENS) {
    const uint count = min(position + 1 - start, (uint)SEGMENT_TOKENS);
    float m = -INFINITY;
    for (uint j = 0; j < count; ++j) {
      const uint at = start + j;
      __global const half* keys =
          kv + mr_keys_at(table[at / PAGE_TOKENS], kv_head) + at % PAGE_TOKENS;
      float s = 0.0f;
      for (uint d = 0; d < HEAD_DIM; ++d) s = fma(q[d], vload_half(d * PAGE_TOKENS, keys), s);
      e[j] = s;
      m = fmax(m, s);
    }
    float lanes[16];
    for (uint l = 0; l < 16; ++l) lanes[l] = 0.0f;
    for (uint j = 0; j < count; ++j) {
      e[j] = mr_exp(e[j] - m);
      lanes[j % 16] = lanes[j % 16] + e[j];
    }
    const float l = mr_sum16(vload16(0, lanes));
    const float merged = start == 0 ? m : fmax(top, m);
    const float f = mr_exp(top - merged), g = mr_exp(m - merged);
    for (uint d = 0; d < HEAD_DIM; ++d) {
      float a = 0.0f;
      for (uint j = 0; j < count; ++j) {
        const uint at = start + j;
        __global const half* values = kv + mr_values_at(table[at / PAGE_TOKENS], kv_head) +
                                      at % PAGE_TOKENS * HEAD_DIM;
        a = fma(e[j], vload_half(d, values), a);
      }
      total[d] = start == 0 ? a : fma(total[d], f, a * g);
    }
    mass = start == 0 ? l : fma(mass, f, l * g);
    top = merged;
  }
  out += (size_t)token * out_stride + head * HEAD_DIM;
  const float inverse = mr_recip(mass);
  for (uint d = 0; d < HEAD_DIM; ++d) out[d] = total[d] * inverse;
}
