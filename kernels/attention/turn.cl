#pragma once
// The rotation of rotated codecs (kv/README.md), for rows of HEAD_DIM floats in local memory.
#include "common/prelude.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"

// x, negated where bit d of `words` is set.
static inline float mr_flipped(float x, __constant const uint* words, uint d) {
  return (words[d / 32] >> (d % 32) & 1) != 0 ? -x : x;
}

// Multiplies each row by H, with `items` work-items; all of the group must call.
MR_GROUP_INLINE void mr_turn_rows(__local float* rows, uint count, uint item, uint items) {
  for (uint h = 1; h < HEAD_DIM; h *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < count * (HEAD_DIM / 2); i += items) {
      const uint at = i / h * 2 * h + i % h;
      const float a = rows[at], b = rows[at + h];
      rows[at] = a + b;
      rows[at + h] = a - b;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
