// Multiplies rows of halves (quantize/code_block.h) by the matrices of their experts: generic.cl. A
// sum is k ascending from 0, one fma each, of the half of the weight and that of x, which is exact
// in fp32 but for the addition; then it is multiplied by H_UNIT.
#include "common/halves.cl"
#include "matmul/weight.cl"
#include "quantize/code_block.h"

#ifndef X_STRIDE
#define X_STRIDE ((K + 63) / 64 * 32)
#endif

static inline float mr_half_sum(__global const uchar* panel, uint row, __global const int* x,
                                size_t x_row) {
  float sum = 0.0f;
  for (uint k = 0; k < K; k += 2) {
    __global const half* halves =
        (__global const half*)x + H_VECTOR_AT(x_row, k / 8, X_STRIDE / 4) * 8 + k % 8;
    const uint pair = mr_halves(mr_weight(panel, row, k), mr_weight(panel, row, k + 1));
    sum = fma(vload_half(0, (const half*)&pair), vload_half(0, halves), sum);
    sum = fma(vload_half(1, (const half*)&pair), vload_half(1, halves), sum);
  }
  return sum * H_UNIT;
}

#define ROW_NUMBER int
#define MR_SUM(panel, row, x, x_row) mr_half_sum(panel, row, x, x_row)
#include "experts/generic.cl"
