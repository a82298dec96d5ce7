#pragma once
// Products of fp32 rows by fp32 matrices for NVIDIA GPUs, such as the logits of a router: the sums
// and bits of exact_generic.cl, whose arguments it takes.
//
//   launch   local (16, 8), groups (panels, columns / GROUP_COLUMNS, rounded up)
//
// A work-item has a row of a panel and COLUMNS_EACH columns. Weights and x come to local memory in
// stages of CHUNK columns of K, STAGES - 1 of which are under way.
// Limit: few columns: the chain of K multiply-adds, which wait for each other; many: the reads of
// local memory, four words of weights and COLUMNS_EACH vectors of x for 4 COLUMNS_EACH
// multiply-adds.
//
// Defines besides those of layout.cl, CODES 0: COLUMNS_EACH, 1 or 4; MATRIX_UNIT (mma.cl), which
// only says whether copies are the device's own.
#include "matmul/layout.cl"
#include "matmul/mma.cl"
#include "matmul/mode.h"

#ifndef COLUMNS_EACH
#define COLUMNS_EACH 1
#endif

#define CHUNK (K % 64 == 0 ? 64 : 32)
#define STAGES (COLUMNS_EACH == 1 ? 4 : 3)
#define GROUP_COLUMNS (8 * COLUMNS_EACH)
#define ITEMS 128
// In vectors of four floats.
#define WEIGHT_VECTORS (CHUNK * 4)
#define X_ROW (CHUNK / 4 + 1)  // rows begin in different banks
#define X_VECTORS (GROUP_COLUMNS * CHUNK / 4)
#define STAGE (WEIGHT_VECTORS + GROUP_COLUMNS * X_ROW)

// Begins to copy a stage. Absent columns are the last one.
MR_GROUP_INLINE void mr_copy_chunk(__local uint4* to, __global const uchar* panel,
                                   __global const float* x, uint first, uint columns, uint x_stride,
                                   uint step, uint item) {
  if (step < K / CHUNK) {
    __global const uint4* weights = (__global const uint4*)panel + step * WEIGHT_VECTORS;
    MR_EACH(i, WEIGHT_VECTORS / ITEMS) {
      mr_copy16(to + i * ITEMS + item, weights + i * ITEMS + item);
    }
    MR_EACH(i, (X_VECTORS + ITEMS - 1) / ITEMS) {
      const uint at = i * ITEMS + item, column = at / (CHUNK / 4), vector = at % (CHUNK / 4);
      if (X_VECTORS % ITEMS == 0 || at < X_VECTORS) {
        __global const float* row = x + (size_t)min(first + column, columns - 1) * x_stride;
        mr_copy16(to + WEIGHT_VECTORS + column * X_ROW + vector,
                  (__global const uint4*)(row + step * CHUNK) + vector);
      }
    }
  }
  MR_COPIES_BEGUN();
}

__kernel __attribute__((reqd_work_group_size(16, 8, 1)))
void matmul(__global const uchar* weight, __global const float* x, __global float* out,
            __global const float* bias, uint panels, uint columns, uint x_stride, uint out_stride,
            uint out_row, uint mode) {
  __local uint4 staged[STAGES * STAGE];
  const uint row = (uint)get_local_id(0), own = (uint)get_local_id(1), item = own * 16 + row;
  const uint first = (uint)get_group_id(1) * GROUP_COLUMNS;
  __global const uchar* panel = weight + (size_t)get_group_id(0) * PANEL_BYTES;
  float sums[COLUMNS_EACH];
  MR_EACH(c, COLUMNS_EACH) sums[c] = 0.0f;
  for (uint step = 0; step < STAGES - 1; ++step) {
    mr_copy_chunk(staged + step * STAGE, panel, x, first, columns, x_stride, step, item);
  }
  _Pragma("unroll 1") for (uint step = 0; step < K / CHUNK; ++step) {
    MR_WAIT_FOR_COPIES(STAGES - 2);
    barrier(CLK_LOCAL_MEM_FENCE);  // the stage has arrived, and all have left the one before
    mr_copy_chunk(staged + (step + STAGES - 1) % STAGES * STAGE, panel, x, first, columns, x_stride,
                  step + STAGES - 1, item);
    __local const float* weights = (__local const float*)(staged + step % STAGES * STAGE) + row;
    __local const float4* columns_of =
        (__local const float4*)(staged + step % STAGES * STAGE + WEIGHT_VECTORS) + own * X_ROW;
    _Pragma("unroll 8") for (uint k = 0; k < CHUNK / 4; ++k) {
      float w[4];
      MR_EACH(i, 4) w[i] = weights[(4 * k + i) * 16];
      MR_EACH(c, COLUMNS_EACH) {
        const float4 v = columns_of[c * 8 * X_ROW + k];
        sums[c] = fma(w[0], v.x, sums[c]);
        sums[c] = fma(w[1], v.y, sums[c]);
        sums[c] = fma(w[2], v.z, sums[c]);
        sums[c] = fma(w[3], v.w, sums[c]);
      }
    }
  }
  const uint r = out_row + (uint)get_group_id(0) * 16 + row;
  MR_EACH(c, COLUMNS_EACH) {
    const uint column = first + c * 8 + own;
    if (column < columns) {
      float sum = sums[c];
      if ((mode & MODE_BIASED) != 0) sum = sum + bias[r];
      __global float* to = out + (size_t)column * out_stride + r;
      if ((mode & MODE_ADDS) != 0) sum = sum + *to;
      *to = sum;
    }
  }
}
