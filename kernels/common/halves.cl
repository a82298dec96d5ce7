#pragma once
// Conversions of halves that stand in the bits of a word. MATRIX_UNIT 1, on NVIDIA GPUs, names the
// instructions, which that compiler does not find by itself.
#include "common/prelude.cl"

#ifndef MATRIX_UNIT
#define MATRIX_UNIT 0
#endif

// Returns x and y as halves, nearest even, x in the low bits.
static inline uint mr_halves(float x, float y) {
  uint pair;
#if MATRIX_UNIT
  __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
#else
  vstore_half_rte(x, 0, (half*)&pair);
  vstore_half_rte(y, 1, (half*)&pair);
#endif
  return pair;
}

// Returns the half in the low bits.
static inline float mr_from_half(uint bits) {
#if MATRIX_UNIT
  float value;
  __asm__("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((ushort)bits));
  return value;
#else
  return vload_half(0, (const half*)&bits);
#endif
}
