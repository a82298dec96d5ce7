// What the recurrence of a token needs besides its values: the decay d and the strength of writing
// w of each head, and, in a delta net, queries and keys of length 1.
//
//   delta net  w = sigmoid(WRITE), d = exp(a * softplus(DECAY + dt_bias));
//              k = k / sqrt(sum k^2 + 1e-6), q = q / sqrt(sum q^2 + 1e-6) / sqrt(KEY_DIM), in place
//   Mamba 2    w = softplus(DECAY + dt_bias), d = exp(a * w)
//
//   mixed       float [tokens][stride], after the convolution; WRITE and DECAY of head h stand at
//               WRITES_AT + h and DECAYS_AT + h. GATES_BY_KEY_HEAD 1: each key head has those of
//               its heads side by side, first all WRITEs: for r = RECUR_HEADS / KEY_HEADS, WRITE at
//               WRITES_AT + h / r * 2r + h % r and DECAY r places after it
//   a, dt_bias  float [HEADS_PADDED]
//   gates       float [tokens][2][HEADS_PADDED]: d, then w
//   launch      groups of ROW_ITEMS work-items: (GATE_PARTS, tokens), one for each query and key,
//               in Mamba 2 one; the groups of a token share its gates
// Order of sums: that of norm/rms.cl. Limit: vector operations.
#include "common/prelude.cl"
#include "common/sigmoid.cl"
#include "norm/rms.cl"
#include "recurrence/shape.cl"

#ifndef GATES_BY_KEY_HEAD
#define GATES_BY_KEY_HEAD 0
#endif

// The 16 numbers from head `h` on that begin at `at`; zeros beyond the last head.
static inline float16 mr_of_heads(__global const float* row, uint at, uint h) {
  float v[16];
  MR_EACH(i, 16) {
    const uint head = h + i;
#if GATES_BY_KEY_HEAD
    const uint r = RECUR_HEADS / KEY_HEADS;
    const uint place = head / r * (2 * r) + head % r;
#else
    const uint place = head;
#endif
    v[i] = head < RECUR_HEADS ? row[at + place] : 0.0f;
  }
  return vload16(0, v);
}

static inline void mr_gates(__global const float* row, __global const float* a,
                            __global const float* dt_bias, __global float* gates, uint b) {
  const float16 dt = mr_softplus16(mr_of_heads(row, DECAYS_AT, b * 16) + vload16(b, dt_bias));
  vstore16(mr_exp16(vload16(b, a) * dt), b, gates);
#if DELTA
  vstore16(mr_sigmoid16(mr_of_heads(row, WRITES_AT, b * 16)), b, gates + HEADS_PADDED);
#else
  vstore16(dt, b, gates + HEADS_PADDED);
#endif
}

// Computes part `part` of `parts` of a token's gates. In a delta net a part is a query or a key,
// too.
MR_GROUP_INLINE void mr_recurrence_gates(__global float* row, __global const float* a,
                                         __global const float* dt_bias, __global float* gates,
                                         uint part, uint parts MR_SUMS_PARAMETER) {
  for (uint b = part * ROW_ITEMS + ROW_ITEM; b < HEADS_PADDED / 16; b += parts * ROW_ITEMS) {
    mr_gates(row, a, dt_bias, gates, b);
  }
#if DELTA
  const int is_key = part >= KEY_HEADS;
  __global float* x =
      row + (is_key ? KEYS_AT + (part - KEY_HEADS) * KEY_DIM : QUERIES_AT + part * KEY_DIM);
  const float length = is_key ? 1.0f : mr_rsqrt((float)KEY_DIM);
  const float scale = mr_rms_scale(x, KEY_DIM / 16, 1.0f, 1e-6f, 0.0f MR_SUMS_ARGUMENT) * length;
  for (uint b = ROW_ITEM; b < KEY_DIM / 16; b += ROW_ITEMS) vstore16(vload16(b, x) * scale, b, x);
#endif
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void recurrence_gates(__global float* mixed, __global const float* a,
                      __global const float* dt_bias, __global float* gates, uint stride) {
  MR_SUMS
  const size_t token = get_group_id(1);
  mr_recurrence_gates(mixed + token * stride, a, dt_bias, gates + token * (2 * HEADS_PADDED),
                      (uint)get_group_id(0), (uint)get_num_groups(0) MR_SUMS_ARGUMENT);
}
