#pragma once
// Stores the sums of a panel and tiles of 8 columns as the matrix unit of NVIDIA GPUs leaves them
// (mma.cl, wgmma.cl), times H_UNIT, plus what the mode of the product adds.
#include "common/prelude.cl"
#include "matmul/mode.h"
#include "quantize/code_block.h"

// Tiles whose old outputs are read before the first is written, so that a work-item waits for
// memory once for all of them.
#define TILES_AT_ONCE 4

// Stores what exists of `tiles` tiles, at most TILES_AT_ONCE; the first column of the lane is
// `column`, and its rows are `row` and `row` + 8 of the output.
MR_GROUP_INLINE void mr_store_some(const float* sums, int tiles, __global float* out,
                                   const float* bias, uint row, uint column, uint columns,
                                   uint out_stride, uint mode) {
  float old[4 * TILES_AT_ONCE];
  __global float* first = out + (size_t)column * out_stride + row;
  if ((mode & MODE_ADDS) != 0) {
    MR_EACH(n, tiles) MR_EACH(i, 4) {
      const bool exists = column + 8 * n + i % 2 < columns;
      old[4 * n + i] = exists ? first[(size_t)(8 * n + i % 2) * out_stride + i / 2 * 8] : 0.0f;
    }
  }
  MR_EACH(n, tiles) MR_EACH(i, 4) {
    float sum = sums[4 * n + i] * H_UNIT;
    if ((mode & MODE_BIASED) != 0) sum = sum + bias[i / 2];
    if ((mode & MODE_ADDS) != 0) sum = sum + old[4 * n + i];
    if (column + 8 * n + i % 2 < columns) {
      first[(size_t)(8 * n + i % 2) * out_stride + i / 2 * 8] = sum;
    }
  }
}

MR_GROUP_INLINE void mr_store_tiles(const float* sums, int tiles, __global float* out,
                                    __global const float* bias, uint row, uint column,
                                    uint columns, uint out_stride, uint mode) {
  float own_bias[2] = {0.0f, 0.0f};
  if ((mode & MODE_BIASED) != 0) {
    own_bias[0] = bias[row];
    own_bias[1] = bias[row + 8];
  }
  MR_EACH(turn, (tiles + TILES_AT_ONCE - 1) / TILES_AT_ONCE) {
    const int begin = turn * TILES_AT_ONCE;
    mr_store_some(sums + 4 * begin, tiles - begin < TILES_AT_ONCE ? tiles - begin : TILES_AT_ONCE,
                  out, own_bias, row, column + 8 * begin, columns, out_stride, mode);
  }
}
