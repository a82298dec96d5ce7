// Stands before every program (common/*.cl, in order of path).
//
// Arithmetic rules that give the same bits on every device and in every variant (DESIGN section 6):
// contraction is off, and each fused multiply-add is written as fma(); only +, -, *, fma,
// conversions and integer operations are used, which OpenCL rounds correctly; division, square
// roots and transcendental functions are our own (math.cl). Sums have one written order.
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
