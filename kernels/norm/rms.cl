#pragma once
// Computes the root-mean-square norm of rows:
//
//   out = (x * (1 / sqrt(mean(x^2) + epsilon))) * weight
//
//   x       float [.][x_stride]; row i of the launch is row i of x, or row step[rows + i] if
//           `gather` is not 0
//   weight  float [blocks * 16], zero beyond the true width
//   out     float [launch][out_stride], 16 * blocks of each row written
//   launch  one group of ROW_ITEMS work-items per row: one work-item, or at least 16
// NORM_CENTERED 1 subtracts the mean of the row first (LayerNorm); the width is then a multiple of
// 16, because padding would count.
// Order of sums: lane l adds channels l, l + 16, ... or, by fma, their squares; then mr_sum16. A
// lane is a lane of a vector, or a work-item.
// Limit: memory. The chain of sums and fold that a row waits for takes as long again.
#include "common/math.cl"
#include "common/prelude.cl"

#ifndef NORM_CENTERED
#define NORM_CENTERED 0
#endif

#if NORM_CENTERED
#define MR_OFF(v, mean) ((v) - (mean))
#define MR_MEAN(x, blocks, inverse_width) mr_row_mean(x, blocks, inverse_width MR_SUMS_ARGUMENT)
#else
#define MR_OFF(v, mean) (v)
#define MR_MEAN(x, blocks, inverse_width) 0.0f
#endif

#if ROW_ITEMS == 1
#define MR_SUMS
#define MR_SUMS_PARAMETER
#define MR_SUMS_ARGUMENT

#if NORM_CENTERED
static inline float mr_row_mean(__global const float* x, uint blocks, float inverse_width) {
  float16 sum = (float16)(0.0f);
  for (uint b = 0; b < blocks; ++b) sum += vload16(b, x);
  return mr_sum16(sum) * inverse_width;
}
#endif

static inline float mr_rms_scale(__global const float* x, uint blocks, float inverse_width,
                                 float epsilon, float mean) {
  float16 squares = (float16)(0.0f);
  for (uint b = 0; b < blocks; ++b) {
    const float16 v = MR_OFF(vload16(b, x), mean);
    squares = fma(v, v, squares);
  }
  return mr_rsqrt(fma(mr_sum16(squares), inverse_width, epsilon));
}
#else
#define NORM_AT_ONCE 128  // blocks of 16 channels
#define MR_SUMS __local float sums[16], loaded[16 * NORM_AT_ONCE];
#define MR_SUMS_PARAMETER , __local float *sums, __local float *loaded
#define MR_SUMS_ARGUMENT , sums, loaded

#if NORM_CENTERED
MR_GROUP_INLINE float mr_row_mean(__global const float* x, uint blocks, float inverse_width,
                                  __local float* sums, __local float* loaded) {
  const uint lane = (uint)get_local_id(0);
  if (lane < 16) {
    float sum = 0.0f;
    for (uint b = 0; b < blocks; ++b) sum += x[b * 16 + lane];
    sums[lane] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float mean = mr_sum16(vload16(0, sums)) * inverse_width;
  barrier(CLK_LOCAL_MEM_FENCE);  // before the sums are written again
  return mean;
}
#endif

MR_GROUP_INLINE float mr_rms_scale(__global const float* x, uint blocks, float inverse_width,
                                   float epsilon, float mean, __local float* sums,
                                   __local float* loaded) {
  const uint lane = (uint)get_local_id(0);
  float squares = 0.0f;
  // All work-items load, so that the 16 that add wait for memory once in so many blocks.
  for (uint begin = 0; begin < blocks; begin += NORM_AT_ONCE) {
    const uint count = min(blocks - begin, (uint)NORM_AT_ONCE);
    _Pragma("unroll 8") for (uint i = lane; i < count * 16; i += ROW_ITEMS) {
      loaded[i] = x[begin * 16 + i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 16) {
      _Pragma("unroll 16") for (uint b = 0; b < count; ++b) {
        const float v = MR_OFF(loaded[b * 16 + lane], mean);
        squares = fma(v, v, squares);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane < 16) sums[lane] = squares;
  barrier(CLK_LOCAL_MEM_FENCE);
  return mr_rsqrt(fma(mr_sum16(vload16(0, sums)), inverse_width, epsilon));
}
#endif

MR_GROUP_INLINE void mr_norm_row(__global const float* x, __global const float* weight,
                                 __global float* out, uint blocks, float inverse_width,
                                 float epsilon MR_SUMS_PARAMETER) {
  const float mean = MR_MEAN(x, blocks, inverse_width);
  const float scale = mr_rms_scale(x, blocks, inverse_width, epsilon, mean MR_SUMS_ARGUMENT);
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16((MR_OFF(vload16(b, x), mean) * scale) * vload16(b, weight), b, out);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void rms_norm(__global const float* x, __global const float* weight, __global float* out,
              __global const uint* step, uint rows, uint gather, uint blocks, uint x_stride,
              uint out_stride, float inverse_width, float epsilon) {
  MR_SUMS
  const uint i = (uint)get_group_id(0);
  x += (size_t)(gather != 0 ? step[rows + i] : i) * x_stride;
  mr_norm_row(x, weight, out + (size_t)i * out_stride, blocks, inverse_width,
              epsilon MR_SUMS_ARGUMENT);
}
