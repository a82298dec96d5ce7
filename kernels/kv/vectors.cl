#pragma once
// Loads, stores and converts sixteen values at a time, for the cpu family.

// Floats at any address of floats take one move, where PoCL's vload16 and vstore16 take four.
typedef float16 mr_float16_anywhere __attribute__((aligned(4)));

static inline float16 mr_load16(__global const float* p) {
  return *(__global const mr_float16_anywhere*)p;
}
static inline void mr_store16(float16 v, __global float* p) {
  *(__global mr_float16_anywhere*)p = v;
}
static inline float16 mr_take16(const float* p) {
  return *(const mr_float16_anywhere*)p;
}
static inline void mr_put16(float16 v, float* p) {
  *(mr_float16_anywhere*)p = v;
}

// Clamps to the range of halves. NaN stays NaN; clamp() would make it a number.
static inline float16 mr_within_halves(float16 x) {
  const float16 top = (float16)(65504.0f);
  x = select(x, -top, x < -top);
  return select(x, top, x > top);
}

// Convert halves to floats, exactly, and floats to the nearest halves, ties to even, clamped to
// +-65504. Each is one or two instructions where the compiler's target has them. Elsewhere, a
// half's sign and magnitude are shifted into place as integers and a product corrects the exponent,
// also for subnormal halves, as floats keep subnormals on CPUs. All ways give the same bits;
// HALF_BY_INTEGERS forces the last.
#if defined(__AVX512F__) && !defined(HALF_BY_INTEGERS)
static inline float16 mr_half16(__global const ushort* p) {
  return __builtin_ia32_vcvtph2ps512_mask(*(__global const short16*)p, (float16)(0.0f),
                                          (ushort)(0xffff), 4);
}
static inline ushort16 mr_to_half16(float16 x) {
  const short16 halves = __builtin_ia32_vcvtps2ph512_mask(mr_within_halves(x), 0, (short16)(0),
                                                          (ushort)(0xffff));
  return as_ushort16(halves);
}
#elif defined(__F16C__) && !defined(HALF_BY_INTEGERS)
static inline float16 mr_half16(__global const ushort* p) {
  const short16 halves = *(__global const short16*)p;
  float16 out;
  out.lo = __builtin_ia32_vcvtph2ps256(halves.lo);
  out.hi = __builtin_ia32_vcvtph2ps256(halves.hi);
  return out;
}
static inline ushort16 mr_to_half16(float16 x) {
  const float16 within = mr_within_halves(x);
  short16 out;
  out.lo = __builtin_ia32_vcvtps2ph256(within.lo, 0);
  out.hi = __builtin_ia32_vcvtps2ph256(within.hi, 0);
  return as_ushort16(out);
}
#else
static inline float16 mr_half16(__global const ushort* p) {
  const int16 bits = convert_int16(*(__global const ushort16*)p) << 16;
  return as_float16((bits >> 3) & (int16)(0x8fffe000)) * (float16)(0x1p112f);
}
static inline ushort16 mr_to_half16(float16 x) {
  ushort16 out;
  vstore_half16_rte(mr_within_halves(x), 0, (half*)&out);
  return out;
}
#endif

// Plain numbers of 16 and of 32 bits: the type of one and of sixteen, sixteen as floats, and
// sixteen floats as numbers.
typedef ushort MrNumber_16;
typedef ushort16 MrNumbers_16;
static inline float16 mr_floats_16(__global const ushort* p) {
  return mr_half16(p);
}
static inline ushort16 mr_numbers_16(float16 x) {
  return mr_to_half16(x);
}
typedef float MrNumber_32;
typedef float16 MrNumbers_32;
static inline float16 mr_floats_32(__global const float* p) {
  return mr_load16(p);
}
static inline float16 mr_numbers_32(float16 x) {
  return x;
}
