#pragma once
// The gate functions of a gated feed-forward: what gate and up of a channel become. GATE chooses
// the function; without it, silu.
//
//   0  silu          silu(gate) * up, where silu(x) = x / (1 + exp(-x))
//   1  gelu          gelu(gate) * up, where gelu(x) = x / 2 * (1 + tanh(v)) = x / (1 + exp(-2 v))
//                    and v = sqrt(2 / pi) * (x + 0.044715 x^3)
//   2  clamped silu  g / (1 + exp(-1.702 g)) * (u + 1), where g = min(gate, 7) and u = up, clamped
//                    to +-7
//   3  relu squared  max(up, 0)^2, without a gate
//
// Rounding: ((g * (1 / (1 + exp(e)))) * factor), with e limited to 80. A NaN stays one, and zeros
// give zero.
//
//   mr_gate_mul(gate, up)         the activation; the suffix 16 marks the float16 form
//   mr_gate_mul4(gate, up, out)   four vectors of 16 at once, with the same bits
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
#define MR_GATE_PARTS(NAME, F, I)                                         \
  static inline F mr_gate##NAME(F gate) { return gate; }                  \
  static inline F mr_gate_exponent##NAME(F g) { return -g; }              \
  static inline F mr_gate_factor##NAME(F up) { return up; }
#elif GATE == 1
#define MR_GATE_PARTS(NAME, F, I)                                         \
  static inline F mr_gate##NAME(F gate) { return gate; }                  \
  static inline F mr_gate_exponent##NAME(F g) {                           \
    const F cubic = (g * g) * (F)(0.044715f);                             \
    return fma(cubic, g, g) * (F)(-1.59576912f);                          \
  }                                                                       \
  static inline F mr_gate_factor##NAME(F up) { return up; }
#elif GATE == 2
// fmin and fmax would make a number of NaN.
#define MR_GATE_PARTS(NAME, F, I)                                         \
  static inline F mr_gate##NAME(F gate) {                                 \
    return select(gate, (F)(7.0f), (I)(gate > (F)(7.0f)));                \
  }                                                                       \
  static inline F mr_gate_exponent##NAME(F g) { return g * (F)(-1.702f); } \
  static inline F mr_gate_factor##NAME(F up) {                            \
    const F low = select(up, (F)(-7.0f), (I)(up < (F)(-7.0f)));           \
    return select(low, (F)(7.0f), (I)(low > (F)(7.0f))) + (F)(1.0f);      \
  }
#endif

#if GATE == 3
#define MR_GATE_MUL(NAME, F, I)                                           \
  static inline F mr_gate_mul##NAME(F gate, F up) {                       \
    const F g = select(up, (F)(0.0f), (I)(up < (F)(0.0f)));               \
    return g * g;                                                         \
  }
#else
#define MR_GATE_MUL(NAME, F, I)                                           \
  MR_GATE_PARTS(NAME, F, I)                                               \
  static inline F mr_gate_mul##NAME(F gate, F up) {                       \
    const F g = mr_gate##NAME(gate);                                      \
    const F e = fmin(mr_gate_exponent##NAME(g), (F)(80.0f));              \
    return (g * mr_recip##NAME(mr_exp##NAME(e) + (F)(1.0f))) * mr_gate_factor##NAME(up); \
  }
#endif

MR_GATE_MUL(, float, int)
MR_GATE_MUL(16, float16, int16)

#if GATE == 3
static inline void mr_gate_mul4(const float16* gate, const float16* up, float16* out) {
  MR_EACH(i, 4) out[i] = mr_gate_mul16(gate[i], up[i]);
}
#else
// Computes four vectors step by step, because one alone is a chain of operations that wait for each
// other. The bits are the same. Where e is below -87, exp(e) adds nothing to 1, so clamping e
// replaces the selections that mr_exp makes at its limits.
#define MR_FOUR _Pragma("unroll") for (int i = 0; i < 4; ++i)
static inline void mr_gate_mul4(const float16* gate, const float16* up, float16* out) {
  const float16 magic = (float16)(12582912.0f);
  float16 g[4], x[4], t[4], r[4], p[4];
  MR_FOUR g[i] = mr_gate16(gate[i]);
  MR_FOUR x[i] = fmax(fmin(mr_gate_exponent16(g[i]), (float16)(80.0f)), (float16)(-87.0f));
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
  MR_FOUR out[i] = (g[i] * t[i]) * mr_gate_factor16(up[i]);
}
#endif
