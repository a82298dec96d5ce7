#pragma once
// What math int8 makes of an activation before it rounds it to bytes (quantize/code_block.h): each
// group of 128 channels, the last one filled with zeros, is multiplied by the Hadamard matrix of
// 128, whose entries are 1 and -1, as weights are (backend/pack_int8.hpp). That changes no product
// but by a factor of 128, which the weights' scales take, and it spreads what is large in single
// channels over the group, which one scale for all channels would not bear.
//
//   for distances d = 1, 2, 4, .. 64: a' = a + b, b' = a - b for the channels i and i + d, i
//   without the bit d
//
// Then one scale serves the whole row:
//
//   top    = the largest magnitude; below 2^-100 it gives zeros and scale 0; from 2^100 on, or
//            where it is no number, scale NaN, which shows in every result that uses the row
//   scale  = top * (1/127)
//   code   = nearest even of v * (127 * mr_recip(top))
//
// Here a group of channels belongs to 16 work-items of a warp, eight channels each.
//
// Defines: MATRIX_UNIT 1 exchanges channels between registers, 0, on other devices, through local
// memory.
#include "common/math.cl"
#include "common/prelude.cl"

#ifndef MATRIX_UNIT
#define MATRIX_UNIT 0
#endif

static inline float mr_of_lane(float value, uint apart) {
#if MATRIX_UNIT
  float other;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                   : "=f"(other)
                   : "f"(value), "r"(apart));
  return other;
#else
  return value;
#endif
}

// Returns the channels of the work-item so far apart. `all` has a float8 for each work-item where
// there is no exchange of registers.
MR_GROUP_INLINE float8 mr_of_item(float8 v, uint apart, uint item, __local float8* all) {
#if MATRIX_UNIT
  return (float8)(mr_of_lane(v.s0, apart), mr_of_lane(v.s1, apart), mr_of_lane(v.s2, apart),
                  mr_of_lane(v.s3, apart), mr_of_lane(v.s4, apart), mr_of_lane(v.s5, apart),
                  mr_of_lane(v.s6, apart), mr_of_lane(v.s7, apart));
#else
  all[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  const float8 other = all[item ^ apart];
  barrier(CLK_LOCAL_MEM_FENCE);
  return other;
#endif
}

// Multiplies the group of channels of which the work-item has eight. All work-items must call.
MR_GROUP_INLINE float8 mr_rotate8(float8 v, uint item, __local float8* all) {
  float4 sum = v.even + v.odd, difference = v.even - v.odd;
  v = (float8)(sum.x, difference.x, sum.y, difference.y, sum.z, difference.z, sum.w, difference.w);
  const float4 a = (float4)(v.s01, v.s45), b = (float4)(v.s23, v.s67);
  sum = a + b;
  difference = a - b;
  v = (float8)(sum.lo, difference.lo, sum.hi, difference.hi);
  v = (float8)(v.lo + v.hi, v.lo - v.hi);
  MR_EACH(stage, 4) {
    const uint apart = 1u << stage;
    const float8 other = mr_of_item(v, apart, item, all);
    v = fma(v, (float8)((item & apart) != 0 ? -1.0f : 1.0f), other);  // their sum or difference
  }
  return v;
}

// The largest magnitude among eight rotated channels, as an integer: ordered like floats, with
// infinity and NaN above all. If one of a group is no number, all are infinite or none, and so the
// largest is.
static inline int mr_largest8(float8 v) {
  const float4 a = fmax(fabs(v.lo), fabs(v.hi));
  const float2 b = fmax(a.lo, a.hi);
  return as_int(fmax(b.x, b.y)) & 0x7fffffff;
}

static inline float mr_row_scale(int top) {
  if (top < 0x0d800000) return 0.0f;
  return top < 0x71800000 ? as_float(top) * 0.00787401571869850158691f : NAN;
}
static inline float mr_row_inverse(int top) {
  return top < 0x0d800000 || top >= 0x71800000 ? 0.0f : 127.0f * mr_recip(as_float(top));
}

// The bytes of four channels, by adding 1.5 * 2^23, which leaves the nearest integer in the low
// bits. None is beyond 127, because the scale is the largest one's. A NaN becomes any byte.
static inline uint mr_bytes4(float4 v, float inverse) {
  const uint4 code =
      as_uint4(fma(v, (float4)(inverse), (float4)(12582912.0f))) & (uint4)(0xffu);
  return code.x | code.y << 8 | code.z << 16 | code.w << 24;
}
static inline uint2 mr_bytes8(float8 v, float inverse) {
  return (uint2)(mr_bytes4(v.lo, inverse), mr_bytes4(v.hi, inverse));
}
