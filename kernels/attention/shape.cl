// Windows, soft caps and sinks: which keys a query sees, and how its scores count. Comes first in
// attention's programs, after the codecs. Contract: generic.cl.
//
//   defines, set only if the model has the feature, so that other models compile no code for it:
//     WINDOW    how many positions a query sees; its own is the last of them
//     SOFT_CAP  the limit of a score's magnitude, a float
//     SINKS     1: each query head has a logit that takes part in its softmax and has no value
#ifndef WINDOW
#define WINDOW 0
#endif
#ifndef SINKS
#define SINKS 0
#endif
// A cap applies to true scores, so the part that centered keys lack is added before it, not after.
#if KEY_CENTERED && defined(SOFT_CAP)
#define MEAN_IN_SCORES 1
#else
#define MEAN_IN_SCORES 0
#endif

static inline uint mr_first_seen(uint position) {
#if WINDOW > 0
  return position < WINDOW ? 0 : position - WINDOW + 1;
#else
  return 0;
#endif
}

// How many positions of a segment lie in pages before the page of the first position seen.
static inline uint mr_skipped(uint position, uint segment) {
#if WINDOW > 0
  const uint start = segment * SEGMENT_TOKENS;
  const uint first = mr_first_seen(position) / PAGE_TOKENS * PAGE_TOKENS;
  return first > start ? first - start : 0;
#else
  return 0;
#endif
}

#ifdef SOFT_CAP
// Computes SOFT_CAP * tanh(s / SOFT_CAP), with tanh |x| = -d / (2 + d), where d = exp(-2 |x|) - 1 =
// 2^n * (1 + q) - 1, and q is mr_exp's polynomial less 1. Nothing cancels, so small scores stay as
// they are. The result is within 5 ulp for any finite s.
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
