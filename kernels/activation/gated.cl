#pragma once
// Computes out = gate function(gate) * up, the activation of a gated feed-forward. GATE chooses the
// function; without it, silu.
//
//   0  silu          silu(gate) * up, where silu(x) = x / (1 + exp(-x))
//   1  gelu          gelu(gate) * up, where gelu(x) = x / 2 * (1 + tanh(v)) = x / (1 + exp(-2 v))
//                    and v = sqrt(2 / pi) * (x + 0.044715 x^3)
//   2  clamped silu  g / (1 + exp(-1.702 g)) * (u + 1), where g = min(gate, 7) and u = up, clamped
//                    to +-7
//   3  relu squared  max(up, 0)^2, without a gate
//
//   gate_up float [tokens][GATE_INPUTS * 16 * blocks]: gate, then up, each padded to 16s with
//           zeros; or up alone
//   out     float [tokens][out_stride], 16 * blocks of each row written
//   launch  one group of ROW_ITEMS work-items per token
// Rounding: ((g * (1 / (1 + exp(e)))) * factor), with e limited to 80. A NaN stays one, and zeros
// give zero.
// Limit: on CPUs vector operations, 30 for 16 channels (silu); elsewhere memory.
#include "common/math.cl"
#include "common/prelude.cl"

#ifndef GATE
#define GATE 0
#endif

#if GATE == 3
#define GATE_INPUTS 1
#else
#define GATE_INPUTS 2
#endif

// mr_gate and mr_gate_factor are what the two inputs become, and mr_gate_exponent is e.
#if GATE == 0
static inline float16 mr_gate(float16 gate) {
  return gate;
}
static inline float16 mr_gate_exponent(float16 g) {
  return -g;
}
static inline float16 mr_gate_factor(float16 up) {
  return up;
}
#elif GATE == 1
static inline float16 mr_gate(float16 gate) {
  return gate;
}
static inline float16 mr_gate_exponent(float16 g) {
  const float16 cubic = (g * g) * (float16)(0.044715f);
  return fma(cubic, g, g) * (float16)(-1.59576912f);
}
static inline float16 mr_gate_factor(float16 up) {
  return up;
}
#elif GATE == 2
// fmin and fmax would make a number of NaN.
static inline float16 mr_gate(float16 gate) {
  return select(gate, (float16)(7.0f), gate > (float16)(7.0f));
}
static inline float16 mr_gate_exponent(float16 g) {
  return g * (float16)(-1.702f);
}
static inline float16 mr_gate_factor(float16 up) {
  const float16 low = select(up, (float16)(-7.0f), up < (float16)(-7.0f));
  return select(low, (float16)(7.0f), low > (float16)(7.0f)) + (float16)(1.0f);
}
#endif

#if GATE == 3
static inline float16 mr_gate_mul(float16 gate, float16 up) {
  const float16 g = select(up, (float16)(0.0f), up < (float16)(0.0f));
  return g * g;
}

static inline void mr_gate_mul4(const float16* gate, const float16* up, float16* out) {
  MR_EACH(i, 4) out[i] = mr_gate_mul(gate[i], up[i]);
}
#else
static inline float16 mr_gate_mul(float16 gate, float16 up) {
  const float16 g = mr_gate(gate);
  const float16 e = fmin(mr_gate_exponent(g), (float16)(80.0f));
  return (g * mr_recip16(mr_exp16(e) + (float16)(1.0f))) * mr_gate_factor(up);
}

// Computes four vectors at once, step by step, because one alone is a chain of operations that wait
// for each other. The bits are the same. Where e is below -87, exp(e) adds nothing to 1, so
// clamping e replaces the selections that mr_exp makes at its limits.
#define MR_FOUR _Pragma("unroll") for (int i = 0; i < 4; ++i)
static inline void mr_gate_mul4(const float16* gate, const float16* up, float16* out) {
  const float16 magic = (float16)(12582912.0f);
  float16 g[4], x[4], t[4], r[4], p[4];
  MR_FOUR g[i] = mr_gate(gate[i]);
  MR_FOUR x[i] = fmax(fmin(mr_gate_exponent(g[i]), (float16)(80.0f)), (float16)(-87.0f));
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
  MR_FOUR out[i] = (g[i] * t[i]) * mr_gate_factor(up[i]);
}
#endif

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gated_mul(__global const float* gate_up, __global float* out, uint blocks, uint out_stride) {
  const uint token = (uint)get_group_id(0);
  __global const float* gate = gate_up + (size_t)token * (blocks * 16 * GATE_INPUTS);
  __global const float* up = gate + blocks * 16 * (GATE_INPUTS - 1);
  out += (size_t)token * out_stride;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16(mr_gate_mul(vload16(b, gate), vload16(b, up)), b, out);
  }
}
