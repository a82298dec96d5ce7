#pragma once
// Writes a row's root-mean-square norm straight into quantized blocks: the arithmetic of
// norm/rms.cl, then that of block.cl. It is also a phase of a whole layer (layer/cpu.cl).
#include "norm/rms.cl"
#include "quantize/row.cl"

static inline void mr_norm_quantize(__global const float* x, __global const float* weight,
                                    CodeRow out, uint blocks, float inverse_width,
                                    float epsilon MR_SUMS_PARAMETER) {
  const float mean = MR_MEAN(x, 2 * blocks, inverse_width);
  const float scale = mr_rms_scale(x, 2 * blocks, inverse_width, epsilon, mean MR_SUMS_ARGUMENT);
  mr_quantize_row(x, 1, mean, scale, weight, blocks, out);
}
