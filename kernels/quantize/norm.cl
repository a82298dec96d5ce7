#pragma once
// Writes a row's root-mean-square norm straight into quantized blocks: the arithmetic of
// norm/rms.cl, then that of block.cl. It is also a phase of a whole layer (layer/cpu.cl).
#include "norm/rms.cl"
#include "quantize/block.cl"

static inline void mr_norm_quantize(__global const float* x, __global const float* weight,
                                    __global int* out, uint blocks, float inverse_width,
                                    float epsilon MR_SUMS_PARAMETER) {
  const float mean = MR_MEAN(x, 2 * blocks, inverse_width);
  const float scale = mr_rms_scale(x, 2 * blocks, inverse_width, epsilon, mean MR_SUMS_ARGUMENT);
#define MR_NORMED(i) ((MR_OFF(vload16(i, x), mean) * scale) * vload16(i, weight))
  MR_QUANTIZE_ROW(MR_NORMED, blocks, out)
#undef MR_NORMED
}
