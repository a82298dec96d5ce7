#pragma once
// The rotation of a pair of channels (generic.cl), and plain numbers of 16 and of 32 bits.
#include "common/prelude.cl"

static inline float2 mr_rotate(float a, float b, float2 turn) {
  return (float2)(fma(a, turn.x, -(b * turn.y)), fma(a, turn.y, b * turn.x));
}

// Store a plain number of 16 or of 32 bits. Halves are clamped to their range. NaN stays NaN;
// clamp() would make it a number.
#define MR_NUMBER_16 half
static inline void mr_store_16(float value, __global half* to, uint at) {
  const float kept = value < -65504.0f ? -65504.0f : value;
  vstore_half_rte(kept > 65504.0f ? 65504.0f : kept, at, to);
}
#define MR_NUMBER_32 float
static inline void mr_store_32(float value, __global float* to, uint at) {
  to[at] = value;
}
