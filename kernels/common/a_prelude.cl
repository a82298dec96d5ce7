// Stands before every program (common/*.cl, in order of path).
//
// Arithmetic rules that give the same bits on every device and in every variant (ARCHITECTURE.md,
// "Determinism"):
// contraction is off, and each fused multiply-add is written as fma(); only +, -, *, fma,
// conversions and integer operations are used, which OpenCL rounds correctly; division, square
// roots and transcendental functions are our own (b_math.cl). Sums have one written order.
#pragma OPENCL FP_CONTRACT OFF

// A loop that the compiler cannot unroll as asked stays a loop: no news for who runs the program,
// on whose terminal the driver would say it.
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#define MR_NO_SLOT 0xffffffffu

// Names that depend on a number, for files that a program holds several times.
#define MR_JOIN(a, b) a##_##b
#define MR_JOINED(a, b) MR_JOIN(a, b)

// How many work-items share a row in the kernels that go along rows, and which of them this is. One
// where a work-item has wide vectors; devices of many narrow lanes are given more (ROW_ITEMS=32).
#ifndef ROW_ITEMS
#define ROW_ITEMS 1
#endif
#if ROW_ITEMS == 1
#define ROW_ITEM 0u
#else
#define ROW_ITEM ((uint)get_local_id(0))
#endif

// Functions that are given local memory. Plain `static` does not do: the compiler writes the one
// caller's array into the function, and where it then keeps the function, PoCL no longer knows the
// array for a group's own and all groups share it. (Functions that are not static are safe.)
#define MR_GROUP_INLINE static inline __attribute__((always_inline))

// Folds 16 partial sums, or takes the largest of 16, always in this tree: (l, l + 8), (l, l + 4),
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
