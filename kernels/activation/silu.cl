// Computes out = silu(gate) * up, where silu(x) = x / (1 + exp(-x)).
//
//   gate_up float [tokens][2 * 16 * blocks]: gate, then up, each padded to 16s with zeros
//   out     float [tokens][out_stride], 16 * blocks of each row written
//   launch  one group of ROW_ITEMS work-items per token
// Rounding: ((x * (1 / (1 + exp(-x)))) * up), with -x limited to 80.
// Limit: on CPUs vector operations, 30 for 16 channels; elsewhere memory.
static inline float16 mr_silu_mul(float16 gate, float16 up) {
  const float16 bottom = mr_exp16(fmin(-gate, (float16)(80.0f))) + (float16)(1.0f);
  return (gate * mr_recip16(bottom)) * up;
}

// Computes four vectors at once, step by step, because one alone is a chain of operations that wait
// for each other. The bits are the same. Where -x is below -87, exp(-x) adds nothing to 1, so
// clamping -x replaces the selections that mr_exp makes at its limits.
#define MR_FOUR _Pragma("unroll") for (int i = 0; i < 4; ++i)
static inline void mr_silu_mul4(const float16* gate, const float16* up, float16* out) {
  const float16 magic = (float16)(12582912.0f);
  float16 x[4], t[4], r[4], p[4];
  MR_FOUR x[i] = fmax(fmin(-gate[i], (float16)(80.0f)), (float16)(-87.0f));
  MR_FOUR t[i] = fma(x[i], (float16)(1.44269504f), magic);
  MR_FOUR p[i] = t[i] - magic;
  MR_FOUR r[i] = fma(p[i], (float16)(-0.693145752f), x[i]);
  MR_FOUR r[i] = fma(p[i], (float16)(-1.42860677e-6f), r[i]);
  MR_FOUR p[i] = mr_exp_of16(r[i]);
  MR_FOUR p[i] = as_float16(as_int16(p[i]) + (as_int16(t[i]) << 23)) + (float16)(1.0f);
  MR_FOUR t[i] = as_float16((int16)(0x7ef311c7) - as_int16(p[i]));
  for (int k = 0; k < 4; ++k) {
    MR_FOUR r[i] = fma(-p[i], t[i], (float16)(1.0f));
    MR_FOUR t[i] = fma(t[i], r[i], t[i]);
  }
  MR_FOUR out[i] = (gate[i] * t[i]) * up[i];
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void silu_mul(__global const float* gate_up, __global float* out, uint blocks, uint out_stride) {
  const uint token = (uint)get_group_id(0);
  __global const float* gate = gate_up + (size_t)token * (blocks * 32);
  __global const float* up = gate + blocks * 16;
  out += (size_t)token * out_stride;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16(mr_silu_mul(vload16(b, gate), vload16(b, up)), b, out);
  }
}
