// The names that math.cl uses, for one value at a time.
#define FLOAT float
#define INT int
#define UINT uint
#define FN(name) name
#define AS_FLOAT(x) as_float(x)
#define AS_INT(x) as_int(x)
#define AS_UINT(x) as_uint(x)
#define TO_FLOAT(x) convert_float(x)
#define TO_INT(x) convert_int(x)
#define MUL_HIGH(x, y) mul_hi(x, y)
