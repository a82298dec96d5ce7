#pragma once
// Our own exp, log, reciprocal and 1/sqrt. They give the same bits in scalar and vector form and on
// every device, because they consist of correctly rounded operations in one written order.
//
//   mr_exp(x)    within 1 ulp for x in [-87, 88]; 0 below -87.3; +inf above 88.7
//   mr_log(x)    within 2 ulp for normal x > 0
//   mr_exp_of(r) the polynomial of mr_exp: exp(r) for |r| <= ln 2 / 2
//   mr_recip(x)  1/x within 1 ulp for |x| in [1e-37, 1e37]
//   mr_rsqrt(x)  1/sqrt(x) within 2 ulp for normal x > 0
//
// The suffix 16 marks the float16 form. exp uses a Cody-Waite reduction by ln 2 and a polynomial of
// degree 6; log uses the mantissa in [2/3, 4/3) and a polynomial of degree 11. The two others start
// from a bit trick and take Newton steps.

#define MR_MATH(NAME, F, I, AS_F, AS_I)                              \
  static inline F mr_exp_of##NAME(F r) {                             \
    F p = (F)(0.00139336521f);                                       \
    p = fma(p, r, (F)(0.00836318173f));                              \
    p = fma(p, r, (F)(0.0416664667f));                               \
    p = fma(p, r, (F)(0.166665763f));                                \
    p = fma(p, r, (F)(0.5f));                                        \
    p = fma(p, r, (F)(1.0f));                                        \
    return fma(p, r, (F)(1.0f));                                     \
  }                                                                  \
  static inline F mr_exp##NAME(F x) {                                \
    const F magic = (F)(12582912.0f);                                \
    const F t = fma(x, (F)(1.44269504f), magic);                     \
    const I n = AS_I(t) - (I)(0x4b400000);                           \
    const F whole = t - magic;                                       \
    F r = fma(whole, (F)(-0.693145752f), x);                         \
    r = fma(whole, (F)(-1.42860677e-6f), r);                         \
    F y = AS_F(AS_I(mr_exp_of##NAME(r)) + (n << 23));                \
    y = select(y, (F)(0.0f), (I)(x < (F)(-87.3f)));                  \
    return select(y, (F)(INFINITY), (I)(x > (F)(88.7f)));            \
  }                                                                  \
  static inline F mr_log##NAME(F x) {                                \
    const I e = (AS_I(x) - (I)(0x3f2aaaab)) >> 23;                   \
    const F f = AS_F(AS_I(x) - (e << 23)) - (F)(1.0f);               \
    const F n = MR_CONVERT##NAME(e);                                 \
    F p = (F)(0.116195433f);                                         \
    p = fma(p, f, (F)(-0.124298833f));                               \
    p = fma(p, f, (F)(0.108516544f));                                \
    p = fma(p, f, (F)(-0.122872338f));                               \
    p = fma(p, f, (F)(0.142962918f));                                \
    p = fma(p, f, (F)(-0.166733980f));                               \
    p = fma(p, f, (F)(0.199998513f));                                \
    p = fma(p, f, (F)(-0.249999434f));                               \
    p = fma(p, f, (F)(0.333333343f));                                \
    const F square = f * f;                                          \
    F y = fma(p * f, square, n * (F)(1.42860677e-6f));               \
    y = fma((F)(-0.5f), square, y);                                  \
    return fma(n, (F)(0.693145752f), f + y);                         \
  }                                                                  \
  static inline F mr_recip##NAME(F x) {                              \
    F y = AS_F((I)(0x7ef311c7) - AS_I(x));                           \
    y = fma(y, fma(-x, y, (F)(1.0f)), y);                            \
    y = fma(y, fma(-x, y, (F)(1.0f)), y);                            \
    y = fma(y, fma(-x, y, (F)(1.0f)), y);                            \
    return fma(y, fma(-x, y, (F)(1.0f)), y);                         \
  }                                                                  \
  static inline F mr_rsqrt##NAME(F x) {                              \
    const F half_x = (F)(0.5f) * x;                                  \
    F y = AS_F((I)(0x5f3759df) - (AS_I(x) >> 1));                    \
    y = y * fma(-half_x * y, y, (F)(1.5f));                          \
    y = y * fma(-half_x * y, y, (F)(1.5f));                          \
    y = y * fma(-half_x * y, y, (F)(1.5f));                          \
    return y * fma(-half_x * y, y, (F)(1.5f));                       \
  }

#define MR_CONVERT(e) convert_float(e)
#define MR_CONVERT16(e) convert_float16(e)
MR_MATH(, float, int, as_float, as_int)
MR_MATH(16, float16, int16, as_float16, as_int16)
#undef MR_MATH
#undef MR_CONVERT
#undef MR_CONVERT16
