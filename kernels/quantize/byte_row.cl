#pragma once
// A row of channels in the registers of a group of work-items, of NVIDIA GPUs, and its bytes. The
// group is (ITEMS) or (32, ITEMS / 32) work-items. Work-item `item` has the vectors of 8 channels
// item, item + ITEMS, ...: OWN_VECTORS of them, of which those from VECTORS on are zeros.
//
// Defines: VECTORS; ITEMS, a multiple of 32; MATRIX_UNIT (rotate.cl).
#include "common/halves.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "quantize/code_block.h"
#include "quantize/rotate.cl"

#ifndef VECTORS
#define VECTORS 64
#define ITEMS 32
#endif
#define OWN_VECTORS ((VECTORS + ITEMS - 1) / ITEMS)
#define WARPS (ITEMS / 32)
#define MR_ROW_ITEM ((uint)(get_local_id(1) * 32 + get_local_id(0)))
// Whether a work-item has a vector `turn`.
#define MR_OWNS(turn, item) (VECTORS % ITEMS == 0 || (turn) * ITEMS + (item) < VECTORS)
#define BYTE_GROUPS INT8_GROUPS(8 * VECTORS)

// What work-items exchange values through where they cannot through registers.
#define MR_EXCHANGE_MEMORY __local float8 all[MATRIX_UNIT ? 1 : ITEMS];

// Returns the value of the work-item so far apart.
MR_GROUP_INLINE float mr_float_of_item(float value, uint apart, __local float8* all) {
#if MATRIX_UNIT
  return mr_of_lane(value, apart);
#else
  const uint item = MR_ROW_ITEM;
  __local float* const values = (__local float*)all;
  values[item] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  const float other = values[item ^ apart];
  barrier(CLK_LOCAL_MEM_FENCE);
  return other;
#endif
}

// The eight halves of a vector as floats.
static inline float2 mr_two_channels(uint halves) {
  return (float2)(mr_from_half(halves & 0xffffu), mr_from_half(halves >> 16));
}
// A macro, because compilers load an argument that is a vector word by word.
#define MR_EIGHT_CHANNELS(words)                                    \
  ((float8)(mr_two_channels((words).x), mr_two_channels((words).y), \
            mr_two_channels((words).z), mr_two_channels((words).w)))

// Stores row `row` as bytes (rotate.cl), whose channels are `unit`, a power of two, times v, and
// changes v meanwhile. `tops` has WARPS ints for this row alone. A group of channels belongs to 16
// work-items, also the last one: a turn of all work-items has whole groups.
MR_GROUP_INLINE void mr_store_bytes(float8* v, float unit, __global uint2* out, size_t row,
                                    __local int* tops, __local float8* all) {
  const uint item = MR_ROW_ITEM;
  int top = 0;
  MR_EACH(i, OWN_VECTORS) {
    v[i] = mr_rotate8(v[i], item, all);
    top = max(top, mr_largest8(v[i]));
  }
  for (uint apart = 16; apart > 0; apart /= 2) {
    top = max(top, as_int(mr_float_of_item(as_float(top), apart, all)));
  }
  if (item % 32 == 0) tops[item / 32] = top;
  barrier(CLK_LOCAL_MEM_FENCE);
  MR_EACH(i, WARPS) top = max(top, tops[i]);
  top = as_int(as_float(top) * unit);
  const float inverse = mr_row_inverse(top) * unit;
  MR_EACH(i, OWN_VECTORS) {
    const uint at = i * ITEMS + item;
    if (at < BYTE_GROUPS * (INT8_GROUP / 8)) {
      out[2 * INT8_VECTOR_AT(row, at / 2, BYTE_GROUPS) + at % 2] = mr_bytes8(v[i], inverse);
    }
  }
  if (item == 0) ((__global float*)out)[INT8_SCALE_AT(row, BYTE_GROUPS)] = mr_row_scale(top);
}
