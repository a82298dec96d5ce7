#pragma once
// Quantizes a row of `blocks` blocks (block.cl): x or, if `is_norm`, what norm/rms.cl makes of x
// with this mean, scale and weight. The functions are always inlined, so that is_norm is a constant
// in their loops.
#include "common/prelude.cl"
#include "norm/rms.cl"
#include "quantize/block.cl"

#define MR_ROW_INLINE static inline __attribute__((always_inline))

// Channels 16 i to 16 i + 15 of the row.
MR_ROW_INLINE float16 mr_row_channels(__global const float* x, int is_norm, float mean,
                                      float scale, __global const float* weight, uint i) {
  const float16 v = vload16(i, x);
  return is_norm ? (MR_OFF(v, mean) * scale) * vload16(i, weight) : v;
}

MR_ROW_INLINE void mr_quantize_row(__global const float* x, int is_norm, float mean, float scale,
                                   __global const float* weight, uint blocks, CodeRow out) {
#if ROW_ITEMS == 1 && !CODE_HALVES
  Tops tops;
  mr_no_tops(&tops);
  for (uint begin = 0; begin < blocks; begin += Q_TOGETHER) {
    const uint end = min(blocks, begin + Q_TOGETHER);
    for (uint b = begin; b < end; ++b) {
      tops.top[b - begin] = mr_top(mr_row_channels(x, is_norm, mean, scale, weight, 2 * b),
                                   mr_row_channels(x, is_norm, mean, scale, weight, 2 * b + 1));
    }
    mr_scales(&tops, end - begin);
    for (uint b = begin; b < end; ++b) {
      mr_store_block(mr_row_channels(x, is_norm, mean, scale, weight, 2 * b),
                     mr_row_channels(x, is_norm, mean, scale, weight, 2 * b + 1),
                     tops.scale[b - begin], tops.inverse[b - begin], out + b * Q_WORDS);
    }
  }
#else
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    mr_quantize(mr_row_channels(x, is_norm, mean, scale, weight, 2 * b),
                mr_row_channels(x, is_norm, mean, scale, weight, 2 * b + 1), out, b);
  }
#endif
}
