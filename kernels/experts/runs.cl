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

#ifndef EXPERTS
#define EXPERTS 8  // of a layer
#endif

// Copies the rows of `vectors` times 16 words from their tokens to their slots. Runs of one slot
// read the token's row itself.
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gather_rows(__global const int* x, __global const uint2* slots, __global int* sorted,
                 uint vectors) {
  const uint slot = (uint)get_group_id(0), last = (uint)get_num_groups(0) - 1;
  const uint2 at = slots[slot];
  const bool alone = (slot == 0 || slots[slot - 1].x != at.x) &&
                     (slot == last || slots[slot + 1].x != at.x);
  if (alone) return;
  __global const int16* from = (__global const int16*)x + (size_t)at.y * vectors;
  __global int16* to = (__global int16*)sorted + (size_t)slot * vectors;
  for (uint i = ROW_ITEM; i < vectors; i += ROW_ITEMS) to[i] = from[i];
}

// Sums a token's experts, weighed:
//
//   y = sum over ranks, ascending, of weights[rank] * rows[slot of the rank]  (by fma from +0)
//   y = fma(weights[used], shared, y)                                         mode & 2
//   out = scale * y, or fma(scale, y, out)                                    mode & 1
//
//   rows    float [slots][row_stride];  shared  float [tokens][shared_stride]
//   out     float [tokens][out_stride], 16 * blocks of each row written
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void combine(__global const float* rows, __global const float* weights,
             __global const uint* places, __global const float* shared, __global float* out,
             uint used, uint blocks, uint row_stride, uint shared_stride, uint out_stride,
             uint mode, float scale) {
  const uint token = (uint)get_group_id(0);
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
    if ((mode & 2) != 0) sum = fma((float16)(weights[used]), vload16(b, shared), sum);
    const float16 by = (float16)(scale);
    vstore16((mode & 1) != 0 ? fma(by, sum, vload16(b, out)) : by * sum, b, out);
  }
}
