#pragma once
// Dot products of packed codes for --math fast, on CPUs: sums of products of unsigned bytes and
// signed 16-bit numbers in 16 lanes, with the instructions that the processor has. All forms are
// exact, so they give the same results.
//
// A quad is an int16 with four bytes in each lane. Its even bytes (members 0 and 2), then its odd
// ones (1 and 3), are used as pairs of 16 bits. So multipliers come in words of two: those of
// members 0 and 2, then those of 1 and 3 (mr_in_pairs). A product's magnitude is below 2^23, that
// of a sum of 256 below 2^31.
//
//   DOT 0  plain vectors
//   DOT 1  AVX2:        vpmaddwd in two halves
//   DOT 2  AVX-512BW:   vpmaddwd
//   DOT 3, 4  AVX-512VNNI: vpdpwssd
#include "matmul/target.cl"

#if DOT > 0
typedef char MrTable __attribute__((ext_vector_type(64)));
typedef char MrHalfTable __attribute__((ext_vector_type(32)));
typedef ushort MrPairs __attribute__((ext_vector_type(32)));
typedef short MrFactors __attribute__((ext_vector_type(32)));
typedef short MrHalfFactors __attribute__((ext_vector_type(16)));
#endif

static inline MR_TARGET_INLINE int16 mr_even_bytes(int16 quad) {
  return quad & (int16)(0x00ff00ff);
}

static inline MR_TARGET_INLINE int16 mr_odd_bytes(int16 quad) {
#if DOT > 0
  return __builtin_astype(__builtin_astype(quad, MrPairs) >> (MrPairs)(8), int16);
#else
  return quad >> 8 & (int16)(0x00ff00ff);
#endif
}

// Adds to `sum` the products of each lane's two bytes and the two numbers in x, which are the same
// for all lanes.
static inline MR_TARGET_INLINE int16 mr_add_pairs_of(int16 sum, int16 bytes, int x) {
#if DOT >= 3
  return __builtin_ia32_vpdpwssd512(sum, bytes, (int16)(x));
#elif DOT == 2
  const int16 products = __builtin_astype(
      __builtin_ia32_pmaddwd512(__builtin_astype(bytes, MrFactors),
                                __builtin_astype((int16)(x), MrFactors)),
      int16);
  return sum + products;
#elif DOT == 1
  const MrHalfFactors factors = __builtin_astype((int8)(x), MrHalfFactors);
  int16 products;
  products.lo = __builtin_astype(
      __builtin_ia32_pmaddwd256(__builtin_astype(bytes.lo, MrHalfFactors), factors), int8);
  products.hi = __builtin_astype(
      __builtin_ia32_pmaddwd256(__builtin_astype(bytes.hi, MrHalfFactors), factors), int8);
  return sum + products;
#else
  sum += (bytes & (int16)(0xffff)) * (int16)(x << 16 >> 16);
  return sum + (bytes >> 16) * (int16)(x >> 16);
#endif
}

// Looks up table[byte] for bytes below 16; the table fills 64 bytes, four times over. Without an
// instruction for it this is a loop, which is not worth inlining.
#if DOT > 0
#define MR_LOOKUP static inline MR_TARGET_INLINE
#else
#define MR_LOOKUP static MR_TARGET
#endif
MR_LOOKUP int16 mr_lookup_bytes(__constant const uchar* table, int16 bytes) {
#if DOT >= 2
  return __builtin_astype(
      __builtin_ia32_pshufb512(__builtin_astype(*(__constant const int16*)table, MrTable),
                               __builtin_astype(bytes, MrTable)),
      int16);
#elif DOT == 1
  const MrHalfTable levels = __builtin_astype(*(__constant const int8*)table, MrHalfTable);
  int16 out;
  out.lo = __builtin_astype(
      __builtin_ia32_pshufb256(levels, __builtin_astype(bytes.lo, MrHalfTable)), int8);
  out.hi = __builtin_astype(
      __builtin_ia32_pshufb256(levels, __builtin_astype(bytes.hi, MrHalfTable)), int8);
  return out;
#else
  int16 out;
  uchar* to = (uchar*)&out;
  const uchar* at = (const uchar*)&bytes;
  for (uint i = 0; i < 64; ++i) to[i] = table[at[i]];
  return out;
#endif
}

// Selects b where a byte of `bits` has any bit of `mask`, else a.
static inline MR_TARGET_INLINE int16 mr_choose_bytes(int16 bits, int mask, int16 a, int16 b) {
#if DOT > 0
  const MrTable chosen = (__builtin_astype(bits & (int16)(mask), MrTable) != (MrTable)(0));
  return __builtin_astype(chosen ? __builtin_astype(b, MrTable) : __builtin_astype(a, MrTable),
                          int16);
#else
  const int16 ones = bits & (int16)(mask);
  // mask has one bit a byte.
  const int16 low = (as_int16(as_uint16(ones) >> (uint16)(popcount((mask & 0xff) - 1)))) &
                    (int16)(0x01010101);
  const int16 all = (low << 8) - low;
  return (b & all) | (a & ~all);
#endif
}

// The magnitudes of v as integers, whose order is that of magnitudes; NaN is above all.
static inline int16 mr_size16(float16 v) {
  return as_int16(v) & (int16)(0x7fffffff);
}

// Rounds v to numbers of 16 bits: nearest even of v * inverse, clamped to +-32767.
static inline int16 mr_short_codes(float16 v, float inverse) {
  const float16 magic = (float16)(12582912.0f);
  const int16 code = as_int16(fma(v, (float16)(inverse), magic)) - (int16)(0x4b400000);
  return clamp(code, (int16)(-32767), (int16)(32767));
}

// Puts sixteen multipliers into the order of quads.
static inline short16 mr_in_pairs(int16 codes) {
  return convert_short16(codes.s021346578a9bcedf);
}
