#pragma once
// Multiplies fp32 columns by a packed matrix:
//
//   out[c][r] = sum over k of weight[r][k] * x[c][k]   (+ bias[r]) (+ out[c][r] before)
//
// Plain form: one work-item per output. A group has a panel and GROUP_COLUMNS columns, so that the
// first column brings the weights into the cache for the others.
//   weight  packed, see layout.cl; the panels from `first_panel` on are used
//   x       float [columns][x_stride], zero from the true K to the padded K
//   out     float [columns][out_stride]; row r of panel p goes to out[c][out_row + 16p + r]
//   mode    flags of mode.h; bias[out_row + 16p + r] is that of row r of panel p
//   launch  local (16, GROUP_COLUMNS), groups (panels, columns / GROUP_COLUMNS, rounded up)
// Order of sums: k ascending from 0, one fma each, from +0; then bias, then the old value. Every
// variant does exactly that for every output, so all give the same bits whatever shares the call.
// Limit: memory; this form serves as the reference, not as the fast path.
#include "matmul/group.cl"
#include "matmul/mode.h"
#include "matmul/weight.cl"

// Returns the sum of one row of a panel.
static inline float mr_output(__global const uchar* panel, uint row, __global const float* x) {
  float sum = 0.0f;
  for (uint k = 0; k < K; ++k) sum = fma(mr_weight(panel, row, k), x[k], sum);
  return sum;
}

__kernel __attribute__((reqd_work_group_size(16, GROUP_COLUMNS, 1)))
void matmul(__global const uchar* weight, __global const float* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint x_stride, uint out_stride,
            uint out_row, uint mode) {
  const uint row = (uint)get_local_id(0), p = (uint)get_group_id(0), c = (uint)get_global_id(1);
  if (c >= columns) return;
  float sum = mr_output(weight + (size_t)p * PANEL_BYTES, row, x + (size_t)c * x_stride);
  if ((mode & MODE_BIASED) != 0) sum = sum + bias[out_row + p * 16 + row];
  out += (size_t)c * out_stride + out_row + p * 16 + row;
  if ((mode & MODE_ADDS) != 0) sum = sum + *out;
  *out = sum;
}
