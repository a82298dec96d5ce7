// The sampler's arithmetic, written once for single values and for vectors of 16. The source fixes
// every rounding: fma only where it is written, no contraction elsewhere, no library function but
// fma. So all devices and both widths give the same bits, and so does the C++ mirror in
// tests/unit/sampler.
#include "common/prelude.cl"

#ifndef FLOAT
#include "sampler/scalar.cl"
#endif

// exp(y - n log 2) for the integer n nearest to y / log 2. The result lies between sqrt(1/2) and
// sqrt(2).
FLOAT FN(sampler_exp_of)(FLOAT y, FLOAT n) {
  FLOAT r = fma(n, (FLOAT)(-0.693359375f), y);
  r = fma(n, (FLOAT)(2.12194440e-4f), r);
  FLOAT p = (FLOAT)(1.98412698e-4f);
  p = fma(p, r, (FLOAT)(1.38888889e-3f));
  p = fma(p, r, (FLOAT)(8.33333333e-3f));
  p = fma(p, r, (FLOAT)(4.16666667e-2f));
  p = fma(p, r, (FLOAT)(1.66666667e-1f));
  p = fma(p, r, (FLOAT)(0.5f));
  p = fma(p, r, (FLOAT)(1.0f));
  return fma(p, r, (FLOAT)(1.0f));
}

// exp(x) for x <= 0, relative error below 2e-7; 0 below -30. Not for NaN.
FLOAT FN(sampler_exp)(FLOAT x) {
  const FLOAT magic = (FLOAT)(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const FLOAT y = select(x, (FLOAT)(-30.0f), x < -30.0f);
  const FLOAT n = fma(y, (FLOAT)(1.44269504f), magic) - magic;
  const FLOAT scale = AS_FLOAT((TO_INT(n) + 127) << 23);
  return select(FN(sampler_exp_of)(y, n) * scale, (FLOAT)(0.0f), x < -30.0f);
}

// log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], relative error below 1e-7.
FLOAT FN(sampler_log1p)(FLOAT f) {
  FLOAT p = (FLOAT)(0.0674023256f);
  p = fma(p, f, (FLOAT)(-0.117272295f));
  p = fma(p, f, (FLOAT)(0.119239256f));
  p = fma(p, f, (FLOAT)(-0.123992212f));
  p = fma(p, f, (FLOAT)(0.142126068f));
  p = fma(p, f, (FLOAT)(-0.166680425f));
  p = fma(p, f, (FLOAT)(0.200025767f));
  p = fma(p, f, (FLOAT)(-0.250000238f));
  p = fma(p, f, (FLOAT)(0.333333015f));
  p = fma(p, f, (FLOAT)(-0.5f));
  p = fma(p, f, (FLOAT)(1.0f));
  return p * f;
}

// log(x) for finite, normal x > 0.
FLOAT FN(sampler_log)(FLOAT x) {
  const UINT bits = AS_UINT(x);
  const FLOAT m = AS_FLOAT((bits & 0x007fffffu) | 0x3f800000u);  // in [1, 2)
  const FLOAT e = TO_FLOAT(AS_INT(bits >> 23) - 127);
  const INT high = m > 1.41421354f;
  const FLOAT f = select(m, m * 0.5f, high) - 1.0f;
  return fma(select(e, e + 1.0f, high), (FLOAT)(0.693147182f), FN(sampler_log1p)(f));
}

// Standard Gumbel noise from 32 random bits: -log(-log(u)), u = (x + 1/2) / 2^32. Near u = 1 the
// function converts the distance to 1 instead of u, so that small values of -log(u) keep their
// precision. The result lies within [-3.2, 23].
FLOAT FN(sampler_gumbel)(UINT x) {
  const FLOAT unit = (FLOAT)(2.32830644e-10f);  // 2^-32
  const FLOAT below = (TO_FLOAT(~x) + 0.5f) * -unit;
  const FLOAT u = (TO_FLOAT(x) + 0.5f) * unit;
  const UINT bits = AS_UINT(u);
  const FLOAT m = AS_FLOAT((bits & 0x007fffffu) | 0x3f800000u);
  const FLOAT e = TO_FLOAT(AS_INT(bits >> 23) - 127);
  const INT high = m > 1.41421354f;
  const INT near = x >= 0xb504f334u;  // u above sqrt(1/2)
  const FLOAT f = select(select(m, m * 0.5f, high) - 1.0f, below, near);
  const FLOAT n = select(select(e, e + 1.0f, high), (FLOAT)(0.0f), near);
  const FLOAT negative = fma(n, (FLOAT)(0.693147182f), FN(sampler_log1p)(f));  // log(u) < 0
  return -FN(sampler_log)(-negative);
}

// Returns a number whose unsigned order is the order of x; -0 counts as 0. Not for NaN.
UINT FN(sampler_key)(FLOAT x) {
  const UINT bits = AS_UINT(x + 0.0f);
  return bits ^ select((UINT)(0x80000000u), (UINT)(0xffffffffu), AS_INT(bits) < 0);
}

// Philox4x32-10 (Salmon et al. 2011) for the counters (block, position, sample, purpose), with the
// seed as key. Writes its four words to *w0 to *w3.
void FN(sampler_philox)(UINT block, uint position, uint sample, uint purpose, uint2 seed, UINT* w0,
                        UINT* w1, UINT* w2, UINT* w3) {
  UINT a = block, b = (UINT)(position), c = (UINT)(sample), d = (UINT)(purpose);
  uint k0 = seed.x, k1 = seed.y;
  for (int round = 0; round < 10; ++round) {
    const UINT high0 = MUL_HIGH(a, 0xd2511f53u), low0 = a * 0xd2511f53u;
    const UINT high1 = MUL_HIGH(c, 0xcd9e8d57u), low1 = c * 0xcd9e8d57u;
    a = high1 ^ b ^ k0;
    b = low1;
    c = high0 ^ d ^ k1;
    d = low0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  *w0 = a;
  *w1 = b;
  *w2 = c;
  *w3 = d;
}
