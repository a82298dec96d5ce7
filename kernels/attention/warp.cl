#pragma once
// What a warp of attention on the matrix unit (nvidia.cl) needs besides its products.
//
// mr_power(x): 2^x; 0 for minus infinity, exactly 1 for 0. On the device it is the unit's own
// instruction, within 2 ulp; elsewhere the polynomial of mr_exp.
//
// mr_quad_max(x): the largest x of the four lanes 4g to 4g + 3, in all of them. Without the unit
// all work-items of the group must call.
//
// mr_other(x, distance): the word x of the lane whose number differs in this bit, a power of two.
// Without the unit all work-items of the group must call.
//
// MR_PUBLISH() orders what this work-item wrote to global memory before what it writes next, and
// what it reads next after what it has read, for all groups.
#include "common/math.cl"
#include "common/prelude.cl"
#include "matmul/mma.cl"

#define MR_LOG2_E 1.44269504f

#if GROUP_WARPS == 1 && MATRIX_UNIT
#define MR_GROUP_BARRIER() __asm__ volatile("bar.warp.sync 0xffffffff;" : : : "memory")
#else
#define MR_GROUP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif

// For memory that only a warp uses.
#if MATRIX_UNIT
#define MR_WARP_BARRIER() __asm__ volatile("bar.warp.sync 0xffffffff;" : : : "memory")
#else
#define MR_WARP_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#endif

#if MATRIX_UNIT
#define MR_QUAD_MEMORY
#define MR_PUBLISH() __asm__ volatile("fence.acq_rel.gpu;" : : : "memory")

static inline float mr_power(float x) {
  float power;
  __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
static inline float mr_max_with(float x, uint distance) {
  float other;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                   : "=f"(other)
                   : "f"(x), "r"(distance));
  return fmax(x, other);
}
static inline float mr_quad_max_of(float x) {
  return mr_max_with(mr_max_with(x, 1), 2);
}
#define mr_quad_max(x) mr_quad_max_of(x)
static inline uint mr_other_of(uint x, uint distance) {
  uint other;
  __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;"
                   : "=r"(other)
                   : "r"(x), "r"(distance));
  return other;
}
#define mr_other(x, distance) mr_other_of(x, distance)
#define MR_QUAD_PARAMETER
#define MR_QUAD_ARGUMENT
#else
#define MR_QUAD_MEMORY __local float quad_memory[GROUP_WARPS * 32];
#define MR_QUAD_PARAMETER , __local float* quad_memory
#define MR_QUAD_ARGUMENT , quad_memory
#define MR_PUBLISH() mem_fence(CLK_GLOBAL_MEM_FENCE)

static inline float mr_power(float x) {
  const float magic = 12582912.0f;
  const float t = x + magic;
  const int n = as_int(t) - 0x4b400000;
  const float y = as_float(as_int(mr_exp_of((x - (t - magic)) * 0.693147181f)) + (n << 23));
  return x < -126.0f ? 0.0f : x > 127.0f ? INFINITY : y;
}
MR_GROUP_INLINE float mr_quad_max_of(float x, __local float* quad_memory) {
  const uint item = (uint)get_local_id(1) * 32 + (uint)get_local_id(0), first = item / 4 * 4;
  quad_memory[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  float top = quad_memory[first];
  for (uint i = 1; i < 4; ++i) top = fmax(top, quad_memory[first + i]);
  barrier(CLK_LOCAL_MEM_FENCE);
  return top;
}
#define mr_quad_max(x) mr_quad_max_of(x, quad_memory)
MR_GROUP_INLINE uint mr_other_of(uint x, uint distance, __local float* quad_memory) {
  __local uint* words = (__local uint*)quad_memory;
  const uint item = (uint)get_local_id(1) * 32 + (uint)get_local_id(0);
  words[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint other = words[item ^ distance];
  barrier(CLK_LOCAL_MEM_FENCE);
  return other;
}
#define mr_other(x, distance) mr_other_of(x, distance, quad_memory)
#endif
