// Rotates queries in place and writes rotated keys, and values, into their pages, for NVIDIA GPUs
// and pages of plain halves. Arguments and bits are those of generic.cl; other codecs, and centered
// keys, run there. Keys are not rotated in place: attention reads them in their pages.
//
//   launch   groups of ITEMS work-items (parts of a token's units, tokens), together at least
//            UNITS of each token
//
// A unit is 8 channels of a head: 4 pairs, or channels behind the pairs, or those of a value. A
// work-item has one, so that all its loads are under way at once.
// Limit: few tokens: two loads that wait for one another; many: memory, 4 bytes of each channel
// read, and of a query's 4, of others' 2 written, those of keys 2 bytes at a time, because the
// channels of a key stand 32 bytes apart.
//
// Defines besides those of generic.cl: ITEMS; STORED_HEADS, KV_HEADS or, where the layer stores
// nothing, 0. HEAD_DIM and ROPE_DIM are multiples of 8.
#include "attention/heads.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "rope/pairs.cl"
#include "step/table.cl"

#ifndef ITEMS
#define ITEMS 64
#define STORED_HEADS KV_HEADS
#endif
#define HEAD_UNITS (HEAD_DIM / 8)
#define TURNED_UNITS (ROPE_DIM / 8)  // of a head
#define UNITS ((HEADS + 2 * STORED_HEADS) * HEAD_UNITS)

// Limits numbers to the range of halves. NaN stays NaN; clamp() would make it a number.
static inline float4 mr_in_range(float4 v) {
  const float4 kept = select(v, (float4)(-65504.0f), v < (float4)(-65504.0f));
  return select(kept, (float4)(65504.0f), kept > (float4)(65504.0f));
}

static inline uint2 mr_halves4(float4 v) {
  const float4 kept = mr_in_range(v);
  return (uint2)(mr_halves(kept.x, kept.y), mr_halves(kept.z, kept.w));
}

// Where the first and the second four numbers of a unit stand in its head, counted in fours: with
// ROPE_HALVES those of each side of the pairs.
static inline uint mr_first_four(uint unit) {
  return ROPE_HALVES && unit < TURNED_UNITS ? unit : 2 * unit;
}
static inline uint mr_second_four(uint unit) {
  return ROPE_HALVES && unit < TURNED_UNITS ? unit + TURNED_UNITS : 2 * unit + 1;
}

// Rotates the four pairs of a unit; `turns` has their cosines and sines.
static inline void mr_turn(float4* first, float4* second, __global const float4* turns) {
  const float4 low = turns[0], high = turns[1];
  const float4 cosine = (float4)(low.x, low.z, high.x, high.z);
  const float4 sine = (float4)(low.y, low.w, high.y, high.w);
#if ROPE_HALVES
  const float4 a = *first, b = *second;
  *first = fma(a, cosine, -(b * sine));
  *second = fma(a, sine, b * cosine);
#else
  const float4 a = (float4)(first->x, first->z, second->x, second->z);
  const float4 b = (float4)(first->y, first->w, second->y, second->w);
  const float4 x = fma(a, cosine, -(b * sine)), y = fma(a, sine, b * cosine);
  *first = (float4)(x.x, y.x, x.y, y.y);
  *second = (float4)(x.z, y.z, x.w, y.w);
#endif
}

// Writes four channels of a key; `channel` counts them in fours.
static inline void mr_store_key(__global ushort* keys, uint channel, float4 v) {
  const uint2 pairs = mr_halves4(v);
  keys += channel * (4 * PAGE_TOKENS);
  keys[0] = (ushort)pairs.x;
  keys[PAGE_TOKENS] = (ushort)(pairs.x >> 16);
  keys[2 * PAGE_TOKENS] = (ushort)pairs.y;
  keys[3 * PAGE_TOKENS] = (ushort)(pairs.y >> 16);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void rope_kv(__global float* qkv, __global const float* rope, __global uchar* kv,
             __global const uint* step, uint positions, uint tables, uint qkv_stride) {
  const uint item = (uint)get_global_id(0), token = (uint)get_group_id(1);
  if (item >= UNITS) return;
  const uint head = item / HEAD_UNITS, unit = item % HEAD_UNITS;
  const int is_query = head < HEADS, is_value = head >= HEADS + STORED_HEADS;
  const int turns = !is_value && unit < TURNED_UNITS;
  if (is_query && !turns) return;
  const uint g = is_value ? head - HEADS - STORED_HEADS : head - HEADS;
  const uint at = is_query ? head * HEAD_DIM : (is_value ? V_ROW : K_ROW) + g * HEAD_DIM;
  __global float4* x = (__global float4*)(qkv + (size_t)token * qkv_stride + at);
  const uint one = is_value ? 2 * unit : mr_first_four(unit);
  const uint other = is_value ? 2 * unit + 1 : mr_second_four(unit);
  float4 first = x[one], second = x[other];
  const uint position = step[positions + token];
  if (turns) {
    mr_turn(&first, &second,
            (__global const float4*)(rope + (size_t)position * ROPE_DIM) + 2 * unit);
  }
  if (is_query) {
    x[one] = first;
    x[other] = second;
    return;
  }
  const uint page = mr_own_page(step, positions, tables, token), slot = position % PAGE_TOKENS;
  if (is_value) {
    __global uint4* values = (__global uint4*)(kv + mr_values_at(page, g));
    const uint2 low = mr_halves4(first), high = mr_halves4(second);
    values[slot * HEAD_UNITS + unit] = (uint4)(low.x, low.y, high.x, high.y);
    return;
  }
  __global ushort* keys = (__global ushort*)(kv + mr_keys_at(page, g)) + slot;
  mr_store_key(keys, one, first);
  mr_store_key(keys, other, second);
}
