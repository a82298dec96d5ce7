// Copies the embedding rows of a step's tokens from the packed matrix (matmul/layout.cl), times
// `scale`, which is 1 for most models.
//
//   out    float [tokens][out_stride]
//   step   uint: per token its id (from `ids` on) and its slot in device_ids, or
//          STEP_NO_SLOT
//   weight panels of the rows first_row .. first_row + rows - 1. The kernel skips tokens of other
//          rows, so that a matrix in several buffers takes one launch for each
//   launch one group of ROW_ITEMS work-items per token
// An id from device_ids outside the vocabulary counts as 0.
// Limit: memory, the lines of a panel that hold the row. The kernel reads code by code, which is
// slower than the limit and takes a negligible part of a step.
#include "common/prelude.cl"
#include "matmul/weight.cl"
#include "step/records.h"

#ifndef WIDTH
#define WIDTH K  // channels of a row
#endif

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void embed(__global const uchar* weight, __global const uint* step, __global const uint* device_ids,
           __global float* out, uint ids, uint slots, uint first_row, uint rows, uint vocabulary,
           uint out_stride, float scale) {
  const uint token = (uint)get_group_id(0);
  const uint slot = step[slots + token];
  uint id = slot == STEP_NO_SLOT ? step[ids + token] : device_ids[slot];
  if (id >= vocabulary) id = 0;
  if (id < first_row || id >= first_row + rows) return;
  const uint row = id - first_row;
  __global const uchar* panel = weight + (size_t)(row / 16) * PANEL_BYTES;
  out += (size_t)token * out_stride;
  for (uint k = ROW_ITEM; k < WIDTH; k += ROW_ITEMS) out[k] = mr_weight(panel, row % 16, k) * scale;
}
