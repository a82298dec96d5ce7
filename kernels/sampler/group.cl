// What the work-items of a row do together: sums, largest values, what stands before. Every one of
// them gets the result. `space` is a word of each of the group's work-items.
#if ROW_ITEMS == 1
ulong sampler_group_sum(ulong value) { return value; }
ulong sampler_group_max(ulong value) { return value; }
ulong sampler_group_before(ulong value) { return 0; }
void sampler_group_add(__global ulong* to, ulong value) { *to += value; }
#else
ulong sampler_group_sum(ulong value, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);  // what was here has been read
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

// The sum of the values of the work-items before this one.
ulong sampler_group_before(ulong value, __local ulong* space) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[ROW_ITEM] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  ulong sum = 0;
  for (uint i = 0; i < ROW_ITEM; ++i) sum += space[i];
  return sum;
}

// Adds to a 64-bit number that others add to: integers, so that the order does not show. OpenCL 1.2
// has atomic operations on 32 bits.
void sampler_group_add(__global ulong* to, ulong value) {
  volatile __global uint* halves = (volatile __global uint*)to;
  const uint low = (uint)value;
  const uint before = atomic_add(halves, low);
  const uint high = (uint)(value >> 32) + (before + low < before ? 1u : 0u);
  if (high != 0) atomic_add(halves + 1, high);
}
#endif
