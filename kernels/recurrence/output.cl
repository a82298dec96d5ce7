// The norm and the gate of a recurrence's output y, in place, with z its gate from `mixed`:
//
//   delta net  y = rms(y, weight) * silu(z), a norm for each head, all of one weight
//   Mamba 2    y = rms(y * silu(z), weight), a norm for each key head's values, each of its own
//              weight; or y * silu(z) if `weight` is null
//
//   y       float [tokens][y_stride], OUTPUT_CHANNELS numbers a norm, a multiple of 16
//   mixed   float [tokens][stride]
//   weight  float [OUTPUT_CHANNELS], in Mamba 2 [OUTPUT_NORMS * OUTPUT_CHANNELS]
//   launch  one group of ROW_ITEMS work-items per norm: groups (OUTPUT_NORMS, tokens)
// Order of sums: that of norm/rms.cl. Limit: silu, 30 vector operations for 16 channels.
#include "common/prelude.cl"
#include "common/sigmoid.cl"
#include "norm/rms.cl"
#include "recurrence/shape.cl"

#ifndef OUTPUT_CHANNELS
#define OUTPUT_CHANNELS RECUR_VALUE_DIM
#endif
#define OUTPUT_BLOCKS (OUTPUT_CHANNELS / 16)

static inline float16 mr_silu16(float16 x) {
  return x * mr_sigmoid16(x);
}

// Computes norm `i` of a token's row y; `z` has the gates of the row.
MR_GROUP_INLINE void mr_recurrence_output(__global float* y, __global const float* z,
                                          __global const float* weight, uint i,
                                          float epsilon MR_SUMS_PARAMETER) {
  const uint channel = i * OUTPUT_CHANNELS;
  y += channel;
  z += channel;
#if !DELTA
  for (uint b = ROW_ITEM; b < OUTPUT_BLOCKS; b += ROW_ITEMS) {
    vstore16(vload16(b, y) * mr_silu16(vload16(b, z)), b, y);
  }
  if (weight == 0) return;
#if ROW_ITEMS > 1
  barrier(CLK_GLOBAL_MEM_FENCE);
#endif
  weight += channel;
#endif
  const float scale =
      mr_rms_scale(y, OUTPUT_BLOCKS, 1.0f / OUTPUT_CHANNELS, epsilon, 0.0f MR_SUMS_ARGUMENT);
  for (uint b = ROW_ITEM; b < OUTPUT_BLOCKS; b += ROW_ITEMS) {
    const float16 normed = (vload16(b, y) * scale) * vload16(b, weight);
#if DELTA
    vstore16(normed * mr_silu16(vload16(b, z)), b, y);
#else
    vstore16(normed, b, y);
#endif
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void recurrence_output(__global float* y, __global const float* mixed,
                       __global const float* weight, uint y_stride, uint stride, float epsilon) {
  MR_SUMS
  mr_recurrence_output(y + get_group_id(1) * y_stride, mixed + get_group_id(1) * stride + GATES_AT,
                       weight, (uint)get_group_id(0), epsilon MR_SUMS_ARGUMENT);
}
