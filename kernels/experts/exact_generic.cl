// Multiplies rows of floats by the matrices of their experts: generic.cl, with the sums of
// matmul/exact_generic.cl.
#include "matmul/exact_generic.cl"

#define ROW_NUMBER float
#include "experts/generic.cl"
