#pragma once
// The logistic function and softplus, from the functions of math.cl in one written order:
//
//   mr_sigmoid(x)   1 / (1 + exp(-x)), within 3 ulp; -x is limited to 80, so it is never 0
//   mr_softplus(x)  log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), within 5 ulp. log1p(e) is
//                   log(1 + e) * (e / ((1 + e) - 1)), which makes up for the rounding of 1 + e
//
// The suffix 16 marks the float16 form. A NaN stays one.
#include "common/math.cl"

#define MR_SIGMOID(NAME, F, I)                                          \
  static inline F mr_sigmoid##NAME(F x) {                               \
    const F e = select(-x, (F)(80.0f), (I)(x < (F)(-80.0f)));           \
    return mr_recip##NAME(mr_exp##NAME(e) + (F)(1.0f));                 \
  }                                                                     \
  static inline F mr_softplus##NAME(F x) {                              \
    const F e = mr_exp##NAME(-fabs(x));                                 \
    const F u = e + (F)(1.0f);                                          \
    const F rest = u - (F)(1.0f);                                       \
    const I tiny = (I)(rest < (F)(1e-6f));                              \
    const F by = e * mr_recip##NAME(select(rest, (F)(1.0f), tiny));     \
    const F log1p = select(mr_log##NAME(u) * by, e, tiny);              \
    return select(x, (F)(0.0f), (I)(x < (F)(0.0f))) + log1p;            \
  }

MR_SIGMOID(, float, int)
MR_SIGMOID(16, float16, int16)
#undef MR_SIGMOID
