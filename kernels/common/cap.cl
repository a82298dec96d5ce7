#pragma once
// Caps scores and logits, in programs with SOFT_CAP, the limit of a magnitude.
//
// Computes SOFT_CAP * tanh(s / SOFT_CAP), with tanh |x| = -d / (2 + d), where d = exp(-2 |x|) - 1 =
// 2^n * (1 + q) - 1, and q is mr_exp's polynomial less 1. Nothing cancels, so small scores stay as
// they are. The result is within 5 ulp for any finite s.
#include "common/math.cl"

#ifdef SOFT_CAP
#define MR_CAPPED(NAME, F, I, AS_F, AS_I)                               \
  static inline F mr_capped##NAME(F s) {                                \
    const F x = s * (F)(1.0f / SOFT_CAP);                               \
    const F magic = (F)(12582912.0f);                                   \
    F y = fabs(x) * (F)(-2.0f);                                         \
    y = select(y, (F)(-40.0f), (I)(y < (F)(-40.0f)));                   \
    const F t = fma(y, (F)(1.44269504f), magic);                        \
    const I n = AS_I(t) - (I)(0x4b400000);                              \
    const F whole = t - magic;                                          \
    F r = fma(whole, (F)(-0.693145752f), y);                            \
    r = fma(whole, (F)(-1.42860677e-6f), r);                            \
    F q = (F)(0.00139336521f);                                          \
    q = fma(q, r, (F)(0.00836318173f));                                 \
    q = fma(q, r, (F)(0.0416664667f));                                  \
    q = fma(q, r, (F)(0.166665763f));                                   \
    q = fma(q, r, (F)(0.5f));                                           \
    q = fma(q, r, (F)(1.0f)) * r;                                       \
    const F power = AS_F((n + (I)(127)) << 23);                         \
    const F d = fma(q, power, power - (F)(1.0f));                       \
    const F size = (F)(SOFT_CAP) * (d * mr_recip##NAME(d + (F)(2.0f))); \
    return select(-size, size, (I)(x < (F)(0.0f)));                     \
  }
MR_CAPPED(, float, int, as_float, as_int)
MR_CAPPED(16, float16, int16, as_float16, as_int16)
#endif
