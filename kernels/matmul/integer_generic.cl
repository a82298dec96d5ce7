#pragma once
// Multiplies quantized columns (quantize/block.cl) by a packed matrix, with integer products over
// blocks:
//
//   out[c][r] = sum over k of weight[r][k] * x[c][k]   (+ bias[r]) (+ out[c][r] before)
//
// Contract, the same in every variant. For every block of 32 columns, ascending, from acc = +0:
//   each run:            i = sum of (value - OFFSET) * x code, exact
//                        acc = fma((float)i, d * s, acc)
//   then each, AFFINE:   acc = fma(m, t, acc)
// then bias, then the old value. A value is a code, or line[code] if CODE_LEVELS. A run is
// SCALE_BLOCK columns; s belongs to the block of x; t is the block's own if a run is the block,
// otherwise s * (float)(sum of the run's x codes). d * s and t are rounded. i stays below 2^24, so
// that its conversion is exact. An output depends on its row and its column alone.
//
// Plain form: one work-item per output. A group has a panel and GROUP_COLUMNS columns, so that the
// first column brings the weights into the cache for the others.
//   x       int [columns][X_STRIDE]
//   the other arguments and the launch are those of exact_generic.cl
// Limit: memory; this form serves as the reference.
#include "matmul/group.cl"
#include "matmul/mode.h"
#include "matmul/weight.cl"
#include "quantize/block.cl"

#ifndef X_STRIDE
#define X_STRIDE (K_BLOCKS * Q_WORDS)
#endif

// Returns the sum of the values of four codes, one per byte, times four of x.
static inline int mr_dot4(__global const uchar* panel, uint codes, int x) {
  int sum = 0;
  for (uint i = 0; i < 4; ++i) {
    const uint code = codes >> (8 * i) & 255u;
    sum += ((int)(CODE_LEVELS ? panel[code] : code) - OFFSET) * (x << (24 - 8 * i) >> 24);
  }
  return sum;
}

// Returns t of a run.
static inline float mr_run_sum(__global const int* x, uint run) {
#if RUNS == 1
  return as_float(x[Q_SUM]);
#else
  const int first = x[Q_OFFSET_HALF];
  return as_float(x[Q_SCALE]) * (float)((run == 0 ? first : x[Q_OFFSET] - first) / -8);
#endif
}

// Returns the sum of one row of a panel.
static inline float mr_output(__global const uchar* panel, uint row, __global const int* x) {
  float acc = 0.0f;
  for (uint b = 0; b < K_BLOCKS; ++b, x += Q_WORDS) {
    const float s = as_float(x[Q_SCALE]);
    for (uint run = 0; run < RUNS; ++run) {
      int sum = 0;
      for (uint g = run * (8 / RUNS); g < (run + 1) * (8 / RUNS); ++g) {
        sum += mr_dot4(panel, mr_codes_of(panel, row, b, g), x[g]);
      }
      acc = fma((float)sum, mr_scale(panel, row, b, run) * s, acc);
    }
#if AFFINE
    for (uint run = 0; run < RUNS; ++run) {
      acc = fma(mr_scale(panel, row, b, RUNS + run), mr_run_sum(x, run), acc);
    }
#endif
  }
  return acc;
}

__kernel __attribute__((reqd_work_group_size(16, GROUP_COLUMNS, 1)))
void matmul(__global const uchar* weight, __global const int* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint out_stride, uint out_row,
            uint mode) {
  const uint row = (uint)get_local_id(0), p = (uint)get_group_id(0), c = (uint)get_global_id(1);
  if (c >= columns) return;
  float acc = mr_output(weight + (size_t)p * PANEL_BYTES, row, x + (size_t)c * X_STRIDE);
  if ((mode & MODE_BIASED) != 0) acc = acc + bias[out_row + p * 16 + row];
  out += (size_t)c * out_stride + out_row + p * 16 + row;
  if ((mode & MODE_ADDS) != 0) acc = acc + *out;
  *out = acc;
}
