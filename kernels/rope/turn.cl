#pragma once
// The rotation of a pair of channels (generic.cl), and plain numbers of 16 and of 32 bits.
#include "common/prelude.cl"

static inline float2 mr_rotate(float a, float b, float2 turn) {
  return (float2)(fma(a, turn.x, -(b * turn.y)), fma(a, turn.y, b * turn.x));
}

// Clamps to the range of halves. NaN stays NaN; clamp() would make it a number.
static inline float mr_kept(float value) {
  const float kept = value < -65504.0f ? -65504.0f : value;
  return kept > 65504.0f ? 65504.0f : kept;
}

// Store a plain number of 16 or of 32 bits.
#define MR_NUMBER_16 half
static inline void mr_store_16(float value, __global half* to, uint at) {
  vstore_half_rte(mr_kept(value), at, to);
}
#define MR_NUMBER_32 float
static inline void mr_store_32(float value, __global float* to, uint at) {
  to[at] = value;
}
