// The names that math.cl uses, for 16 values at a time.
#undef FLOAT
#undef INT
#undef UINT
#undef FN
#undef AS_FLOAT
#undef AS_INT
#undef AS_UINT
#undef TO_FLOAT
#undef TO_INT
#undef MUL_HIGH
#define FLOAT float16
#define INT int16
#define UINT uint16
#define FN(name) name##_16
#define AS_FLOAT(x) as_float16(x)
#define AS_INT(x) as_int16(x)
#define AS_UINT(x) as_uint16(x)
#define TO_FLOAT(x) convert_float16(x)
#define TO_INT(x) convert_int16(x)
// Some compilers compute mul_hi on vectors lane by lane, but not widening products. Products of
// every other lane at a time move no lanes. The first lane is the lower half of the first pair, as
// on CPUs.
uint16 sampler_mul_high_16(uint16 x, uint y) {
  const ulong8 pairs = as_ulong8(x), low = (ulong8)(0xffffffffu);
  return as_uint16((((pairs & low) * (ulong8)(y)) >> 32) | (((pairs >> 32) * (ulong8)(y)) & ~low));
}
#define MUL_HIGH(x, y) sampler_mul_high_16(x, y)
