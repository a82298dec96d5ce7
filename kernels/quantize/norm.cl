// A row's root-mean-square norm straight into quantized blocks: the arithmetic of norm/rms.cl, then
// that of block.cl. Also a phase of a whole layer (layer/cpu.cl).
static inline void mr_norm_quantize(__global const float* x, __global const float* weight,
                                    __global int* out, uint blocks, float inverse_width,
                                    float epsilon) {
  const float scale = mr_rms_scale(x, 2 * blocks, inverse_width, epsilon);
  for (uint b = 0; b < blocks; ++b) {
    mr_quantize((vload16(2 * b, x) * scale) * vload16(2 * b, weight),
                (vload16(2 * b + 1, x) * scale) * vload16(2 * b + 1, weight), out + b * Q_WORDS);
  }
}
