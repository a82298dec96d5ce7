// Names that math.cl is written in, for 16 values at a time.
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
// mul_hi on vectors goes lane by lane in some compilers; widening products do not.
#define MUL_HIGH(x, y)                                                  \
  (uint16)(convert_uint8((convert_ulong8((x).lo) * (ulong)(y)) >> 32), \
           convert_uint8((convert_ulong8((x).hi) * (ulong)(y)) >> 32))
