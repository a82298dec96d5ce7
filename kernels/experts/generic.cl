// Multiplies each slot's row by its expert's matrix (runs.cl):
//
//   out[slot][r] = sum over k of weight[expert][r][k] * x[row][k]   (+ bias[expert][r])
//
// Plain form: one work-item an output. exact_generic.cl and integer_generic.cl include this file:
// they define ROW_NUMBER, the type of the numbers of x, and mr_output of the file of matmul/ that
// has the numeric contract.
//   weight   `panels` panels of each expert, from first_expert on, `experts` of them; slots of
//            other experts are left alone
//   x        rows of X_STRIDE (floats or codes): the token's row if by_token is not 0, otherwise
//            the slot's
//   bias     float [experts of the layer][rows], added if mode & MODE_BIASED
//   out      float [slots][out_stride]; row r of the panels goes to first_row + r
//   launch   local (16, GROUP_COLUMNS), groups (panels, slots / GROUP_COLUMNS, rounded up)
// Limit: memory; this form serves as the reference.
#include "matmul/group.cl"
#include "matmul/layout.cl"
#include "matmul/mode.h"

#ifndef ROW_NUMBER
#define ROW_NUMBER float
#endif
#ifndef X_STRIDE
#define X_STRIDE K
#endif

// The sum of a row of a panel and row x_row of x.
#ifndef MR_SUM
static inline float mr_output(__global const uchar* panel, uint row, __global const ROW_NUMBER* x);
#define MR_SUM(panel, row, x, x_row) mr_output(panel, row, x + (size_t)(x_row) * X_STRIDE)
#endif

__kernel __attribute__((reqd_work_group_size(16, GROUP_COLUMNS, 1)))
void experts_matmul(__global const uchar* weight, __global const ROW_NUMBER* x,
                    __global float* out, __global const float* bias, __global const uint2* slots,
                    uint slot_count, uint panels, uint first_expert, uint experts, uint rows,
                    uint first_row, uint out_stride, uint by_token, uint mode) {
  const uint p = (uint)get_group_id(0), slot = (uint)get_global_id(1);
  if (slot >= slot_count) return;
  const uint2 at = slots[slot];
  const uint expert = at.x - first_expert, row = (uint)get_local_id(0);
  if (expert >= experts) return;
  __global const uchar* panel = weight + ((size_t)expert * panels + p) * PANEL_BYTES;
  const uint r = first_row + p * 16 + row;
  float sum = MR_SUM(panel, row, x, by_token != 0 ? at.y : slot);
  if ((mode & MODE_BIASED) != 0) sum = sum + bias[(size_t)at.x * rows + r];
  out[(size_t)slot * out_stride + r] = sum;
}
