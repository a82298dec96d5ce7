// out = silu(gate) * up, silu(x) = x / (1 + exp(-x)).
//
//   gate_up float [tokens][2 * 16 * blocks]: gate, then up, each padded to 16s with zeros
//   out     float [tokens][out_stride], 16 * blocks of each row written
//   launch  one work-item a token, local (1)
// Rounding: ((x * (1 / (1 + exp(-x)))) * up), with -x kept below 80. Limit: memory.
static inline float16 mr_silu_mul(float16 gate, float16 up) {
  const float16 bottom = mr_exp16(fmin(-gate, (float16)(80.0f))) + (float16)(1.0f);
  return (gate * mr_recip16(bottom)) * up;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void silu_mul(__global const float* gate_up, __global float* out, uint blocks, uint out_stride) {
  const uint token = (uint)get_group_id(0);
  __global const float* gate = gate_up + (size_t)token * (blocks * 32);
  __global const float* up = gate + blocks * 16;
  out += (size_t)token * out_stride;
  for (uint b = 0; b < blocks; ++b) {
    vstore16(mr_silu_mul(vload16(b, gate), vload16(b, up)), b, out);
  }
}
