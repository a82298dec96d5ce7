// Norms queries and keys, and in some models values, in place, each by the root mean square of its
// channels (rms.cl).
//
//   qkv    float [tokens][qkv_stride]: HEADS queries, from K_ROW on KV_HEADS keys, from V_ROW on
//          KV_HEADS values, HEAD_DIM each
//   weight of the queries' norm, then of the keys'. NORM_WHOLE 0 norms each head: float [HEAD_DIM]
//          each. 1 norms all queries and all keys at once: float [HEADS * HEAD_DIM], then
//          [KV_HEADS * HEAD_DIM]
//   NORM_KEYS 0 norms queries only. NORM_VALUES, with NORM_WHOLE 0: 1 also norms each value,
//          without a weight; 2 writes the values, each its key as it was, normed without a weight
//   launch one group of ROW_ITEMS work-items per norm: groups (NORMS, tokens)
// Order of sums: that of rms.cl. Limit: memory, of which it moves little.
#include "attention/heads.cl"
#include "common/prelude.cl"
#include "norm/rms.cl"

#ifndef NORM_WHOLE
#define NORM_WHOLE 0
#endif
#ifndef NORM_KEYS
#define NORM_KEYS 1
#endif
#ifndef NORM_VALUES
#define NORM_VALUES 0
#endif

#if NORM_WHOLE
#define NORMED_QUERIES 1
#define NORMS 2
#define NORMED_CHANNELS(is_key) ((is_key) ? KV_HEADS * HEAD_DIM : HEADS * HEAD_DIM)
#define NORMED_INVERSE(is_key) \
  ((is_key) ? 1.0f / (KV_HEADS * HEAD_DIM) : 1.0f / (HEADS * HEAD_DIM))
#else
#define NORMED_QUERIES HEADS
#define NORMS (HEADS + (NORM_KEYS + (NORM_VALUES == 1)) * KV_HEADS)
#define NORMED_CHANNELS(is_key) HEAD_DIM
#define NORMED_INVERSE(is_key) (1.0f / HEAD_DIM)
#endif

// Computes norm `i` of a token's row of qkv.
MR_GROUP_INLINE void mr_norm_head(__global float* row, __global const float* weight, uint i,
                                  float epsilon MR_SUMS_PARAMETER) {
  const int is_key = i >= NORMED_QUERIES;
  const uint channels = NORMED_CHANNELS(is_key), blocks = channels / 16;
  // Values follow the keys, as further heads.
  __global float* x = row + (is_key ? K_ROW + (i - NORMED_QUERIES) * channels : i * channels);
  if (is_key) weight += NORMED_CHANNELS(0);
  const float scale =
      mr_rms_scale(x, blocks, NORMED_INVERSE(is_key), epsilon, 0.0f MR_SUMS_ARGUMENT);
#if NORM_VALUES == 1
  if (i >= HEADS + KV_HEADS) {
    for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) vstore16(vload16(b, x) * scale, b, x);
    return;
  }
#endif
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    const float16 normed = vload16(b, x) * scale;
#if NORM_VALUES == 2
    if (is_key) vstore16(normed, b, x + (V_ROW - K_ROW));
#endif
    vstore16(normed * vload16(b, weight), b, x);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void norm_heads(__global float* qkv, __global const float* weight, uint qkv_stride,
                float epsilon) {
  MR_SUMS
  mr_norm_head(qkv + (size_t)get_group_id(1) * qkv_stride, weight, (uint)get_group_id(0),
               epsilon MR_SUMS_ARGUMENT);
}
