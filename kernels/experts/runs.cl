#pragma once
// What the products of experts compute: every choice of a token, sorted by expert.
//
// A choice is a token's expert of a rank, token * used + rank. Its result stands in a slot. A run
// is the slots of one expert, which follow one another; or one slot, where each choice is a run of
// its own (route.cl, ROUTE_DIRECT).
//
//   runs    uint [4 + 4 * runs]: their number and three words of padding; of each run its expert,
//           first slot, number of slots, and its first slot's token
//   slots   uint2 [choices]: expert and token
//   places  uint [choices]: the slot of each choice
//
// This file has the passes along rows: gathering the rows of x that runs of several slots multiply,
// and combining the results. Each row has a group of ROW_ITEMS work-items. Limit: memory.
#include "common/prelude.cl"
#include "experts/table.h"

#ifndef EXPERTS
#define EXPERTS 8  // of a layer
#endif

// Copies the row of x of a slot's token, of `vectors` times 16 words, to its slot; not if the slot
// is a run of its own, which reads the token's row itself. `last` is the last slot.
static inline void mr_gather_row(__global const int* x, __global const uint2* slots,
                                 __global int* sorted, uint vectors, uint slot, uint last) {
  const uint2 at = slots[slot];
  const bool alone = (slot == 0 || slots[slot - 1].x != at.x) &&
                     (slot == last || slots[slot + 1].x != at.x);
  if (alone) return;
  __global const int16* from = (__global const int16*)x + (size_t)at.y * vectors;
  __global int16* to = (__global int16*)sorted + (size_t)slot * vectors;
  for (uint i = ROW_ITEM; i < vectors; i += ROW_ITEMS) to[i] = from[i];
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gather_rows(__global const int* x, __global const uint2* slots, __global int* sorted,
                 uint vectors) {
  mr_gather_row(x, slots, sorted, vectors, (uint)get_group_id(0), (uint)get_num_groups(0) - 1);
}

// Sums a token's experts, weighed:
//
//   y = sum over ranks, ascending, of weights[rank] * rows[slot of the rank]  (by fma from +0)
//   y = fma(weights[used], shared, y)                                         COMBINE_SHARED
//   out = scale * y, or fma(scale, y, out)                                    COMBINE_ADDS
//
//   rows    float [slots][row_stride];  shared  float [tokens][shared_stride]
//   out     float [tokens][out_stride], 16 * blocks of each row written
static inline void mr_combine_row(__global const float* rows, __global const float* weights,
                                  __global const uint* places, __global const float* shared,
                                  __global float* out, uint used, uint blocks, uint row_stride,
                                  uint shared_stride, uint out_stride, uint mode, float scale,
                                  uint token) {
  weights += token * (used + 1);
  places += token * used;
  shared += (size_t)token * shared_stride;
  out += (size_t)token * out_stride;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    float16 sum = (float16)(0.0f);
    for (uint r = 0; r < used; ++r) {
      const float16 row = vload16(b, rows + (size_t)places[r] * row_stride);
      sum = fma((float16)(weights[r]), row, sum);
    }
    if ((mode & COMBINE_SHARED) != 0) {
      sum = fma((float16)(weights[used]), vload16(b, shared), sum);
    }
    const float16 by = (float16)(scale);
    vstore16((mode & COMBINE_ADDS) != 0 ? fma(by, sum, vload16(b, out)) : by * sum, b, out);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void combine(__global const float* rows, __global const float* weights,
             __global const uint* places, __global const float* shared, __global float* out,
             uint used, uint blocks, uint row_stride, uint shared_stride, uint out_stride,
             uint mode, float scale) {
  mr_combine_row(rows, weights, places, shared, out, used, blocks, row_stride, shared_stride,
                 out_stride, mode, scale, (uint)get_group_id(0));
}
