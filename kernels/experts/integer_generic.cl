// Multiplies quantized rows by the matrices of their experts: generic.cl, with the sums of
// matmul/integer_generic.cl.
#include "matmul/integer_generic.cl"

#define ROW_NUMBER int
#include "experts/generic.cl"
