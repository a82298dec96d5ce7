// A row's root-mean-square norm straight into quantized blocks: the arithmetic of norm/rms.cl, then
// that of block.cl. Also a phase of a whole layer (layer/cpu.cl).
static inline void mr_norm_quantize(__global const float* x, __global const float* weight,
                                    __global int* out, uint blocks, float inverse_width,
                                    float epsilon MR_SUMS_PARAMETER) {
  const float scale = mr_rms_scale(x, 2 * blocks, inverse_width, epsilon MR_SUMS_ARGUMENT);
#define MR_NORMED(i) ((vload16(i, x) * scale) * vload16(i, weight))
#if ROW_ITEMS == 1
  Tops tops;
  mr_no_tops(&tops);
  for (uint begin = 0; begin < blocks; begin += Q_TOGETHER) {
    const uint end = min(blocks, begin + Q_TOGETHER);
    for (uint b = begin; b < end; ++b) {
      tops.top[b - begin] = mr_top(MR_NORMED(2 * b), MR_NORMED(2 * b + 1));
    }
    mr_scales(&tops, end - begin);
    for (uint b = begin; b < end; ++b) {
      mr_store_block(MR_NORMED(2 * b), MR_NORMED(2 * b + 1), tops.scale[b - begin],
                     tops.inverse[b - begin], out + b * Q_WORDS);
    }
  }
#else
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    mr_quantize(MR_NORMED(2 * b), MR_NORMED(2 * b + 1), out + b * Q_WORDS);
  }
#endif
#undef MR_NORMED
}
