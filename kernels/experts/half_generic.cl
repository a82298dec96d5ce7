// Multiplies rows of halves (quantize/code_block.h) by the matrices of their experts: generic.cl. A
// sum is k ascending from 0, one fma each, of the half of the weight and that of x, which is exact
// in fp32 but for the addition; then it is multiplied by H_UNIT.
#include "common/halves.cl"
#include "matmul/weight.cl"
#include "quantize/code_block.h"

static inline float mr_output(__global const uchar* panel, uint row, __global const int* x) {
  __global const half* halves = (__global const half*)x;
  float sum = 0.0f;
  for (uint k = 0; k < K; k += 2) {
    const uint pair = mr_halves(mr_weight(panel, row, k), mr_weight(panel, row, k + 1));
    sum = fma(vload_half(0, (const half*)&pair), vload_half(k, halves), sum);
    sum = fma(vload_half(1, (const half*)&pair), vload_half(k + 1, halves), sum);
  }
  return sum * H_UNIT;
}

#define ROW_NUMBER int
#include "experts/generic.cl"
