#pragma once
// Reductions over the work-items of a row: sums, largest values, prefix sums. Every work-item gets
// the result. `space` has one word for each work-item of the group.
#include "common/prelude.cl"

#if ROW_ITEMS == 1
ulong sampler_group_sum(ulong value) { return value; }
ulong sampler_group_max(ulong value) { return value; }
ulong sampler_group_before(ulong value) { return 0; }
void sampler_group_add(__global ulong* to, ulong value) { *to += value; }
#else
ulong sampler_group_sum(ulong value, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);  // all work-items have read the previous contents
  space[ROW_ITEM] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = ROW_ITEMS / 2; width > 0; width /= 2) {
    if (ROW_ITEM < width) space[ROW_ITEM] += space[ROW_ITEM + width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return space[0];
}

ulong sampler_group_max(ulong value, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[ROW_ITEM] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = ROW_ITEMS / 2; width > 0; width /= 2) {
    if (ROW_ITEM < width) space[ROW_ITEM] = max(space[ROW_ITEM], space[ROW_ITEM + width]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  return space[0];
}

// Returns the sum of the values of the work-items before this one.
ulong sampler_group_before(ulong value, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[ROW_ITEM] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong sum = 0;
  for (uint i = 0; i < ROW_ITEM; ++i) sum += space[i];
  return sum;
}

// Returns the n-th largest value, n >= 1, or 0 where there are fewer work-items. Values other than
// 0 must differ.
ulong sampler_group_nth(ulong value, uint n, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[ROW_ITEM] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  uint larger = 0;
  for (uint i = 0; i < ROW_ITEMS; ++i) larger += space[i] > value ? 1u : 0u;
  return sampler_group_max(larger + 1 == n ? value : 0, space);
}

// Adds to a 64-bit number to which other work-items add at the same time. It is an integer, so the
// order changes nothing. OpenCL 1.2 has atomic operations on 32 bits only.
void sampler_group_add(__global ulong* to, ulong value) {
  volatile __global uint* halves = (volatile __global uint*)to;
  const uint low = (uint)value;
  const uint before = atomic_add(halves, low);
  const uint high = (uint)(value >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomic_add(halves + 1, high);
}
#endif
