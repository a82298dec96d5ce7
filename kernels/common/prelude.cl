#pragma once
// The beginning of every program, whether its files include this one or not.
//
// These arithmetic rules give the same bits on every device and in every variant (ARCHITECTURE.md,
// "Determinism"). Contraction is off, and each fused multiply-add is written as fma(). Kernels use
// only +, -, *, fma, conversions and integer operations, which OpenCL rounds correctly; division,
// square roots and transcendental functions are our own (math.cl). Sums have one written order.
#pragma OPENCL FP_CONTRACT OFF

// A loop that the compiler cannot unroll as asked stays a loop. The driver would print a warning on
// the user's terminal, where it helps nobody.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

// A loop of a constant number of turns, all of them unrolled.
#define MR_EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)

// Builds names that end in what a template stands for: its number or its side.
#define MR_JOIN(a, b) a##_##b
#define MR_JOINED(a, b) MR_JOIN(a, b)

// How many work-items share a row in the kernels that go along rows, and the index of this one. One
// where a work-item has wide vectors; devices of many narrow lanes get more (ROW_ITEMS=32).
#ifndef ROW_ITEMS
#define ROW_ITEMS 1
#endif
#if ROW_ITEMS == 1
#define ROW_ITEM 0u
#else
#define ROW_ITEM ((uint)get_local_id(0))
#endif

// Marks functions that take local memory as an argument. Plain `static` is not safe: the compiler
// replaces the argument by the only caller's array, and where it then does not inline the function,
// PoCL no longer sees that the array belongs to one group, and all groups share it. (Functions that
// are not static are safe.)
#define MR_GROUP_INLINE static inline __attribute__((always_inline))

// Fold 16 partial sums, or find the largest of 16, always in this tree: (l, l + 8), (l, l + 4),
// (l, l + 2), (l, l + 1).
static inline float mr_sum16(float16 v) {
  float8 a = v.lo + v.hi;
  float4 b = a.lo + a.hi;
  float2 c = b.lo + b.hi;
  return c.x + c.y;
}

static inline float mr_max16(float16 v) {
  float8 a = fmax(v.lo, v.hi);
  float4 b = fmax(a.lo, a.hi);
  float2 c = fmax(b.lo, b.hi);
  return fmax(c.x, c.y);
}
