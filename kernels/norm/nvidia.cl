// The norm of rows of rms.cl for NVIDIA GPUs, as rows, as halves and as bytes in one launch. Its
// sums have an order of their own, so it is not for math exact.
//
//   x, weight, step, rows, gather   as for rms_norm, with zeros beyond the true width
//   out     float [launch][out_stride], 8 * VECTORS of each row written, or null
//   codes   rows of code_stride words of halves (quantize/code_block.h), or null
//   bytes   rows of bytes (the same), or null
//   launch  one group of ITEMS work-items per row
//
// A work-item keeps the vectors of 8 channels i, i + ITEMS, ... of the row in registers, so that
// the row is read once and all of it is under way at the same time.
// Order of sums: a work-item adds each of the eight places of its vectors, or by fma their squares,
// in the order of vectors, then the places: (c, c + 4), (c, c + 2), (c, c + 1). Work-items of a
// warp are added in a tree, (i, i + 16), ... (i, i + 1); then warps in their order.
// Limit: few rows: the launch itself, 4.9 of 5.7 us on an H100; many: memory, 4 bytes read and 2
// written a channel.
//
// Defines: VECTORS; ITEMS, a multiple of 32; NORM_CENTERED (rms.cl); NORM_BYTES 1 if bytes are ever
// wanted; MATRIX_UNIT (quantize/rotate.cl).
#include "common/halves.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "quantize/byte_row.cl"
#include "quantize/code_block.h"

#ifndef NORM_CENTERED
#define NORM_CENTERED 0
#endif
#ifndef NORM_BYTES
#define NORM_BYTES 0
#endif

// Adds the values of the lanes of a warp.
MR_GROUP_INLINE float mr_warp_sum(float value, __local float8* all) {
  for (uint apart = 16; apart > 0; apart /= 2) {
    value = value + mr_float_of_item(value, apart, all);
  }
  return value;
}

// Adds the values of all work-items. `sums` has WARPS floats for this sum alone.
MR_GROUP_INLINE float mr_group_sum(float8 places, __local float* sums, __local float8* all) {
  const float4 a = places.lo + places.hi;
  const float2 b = a.lo + a.hi;
  const float own = mr_warp_sum(b.x + b.y, all);
  const uint item = (uint)get_local_id(0);
  if (item % 32 == 0) sums[item / 32] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = sums[0];
  MR_EACH(i, WARPS - 1) sum = sum + sums[i + 1];
  return sum;
}

static inline uint4 mr_codes8(float8 v) {
  const float8 scaled = v * H_SCALE;
  return (uint4)(mr_halves(scaled.s0, scaled.s1), mr_halves(scaled.s2, scaled.s3),
                 mr_halves(scaled.s4, scaled.s5), mr_halves(scaled.s6, scaled.s7));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void rms_norm(__global const float* x, __global const float8* weight, __global float* out,
              __global uint4* codes, __global uint2* bytes, __global const uint* step, uint rows,
              uint gather, uint x_stride, uint out_stride, uint code_stride, float inverse_width,
              float epsilon) {
  __local float sums[2 * WARPS];
  MR_EXCHANGE_MEMORY
#if NORM_BYTES
  __local int tops[WARPS];
#endif
  const uint item = (uint)get_local_id(0), row = (uint)get_group_id(0);
  __global const float8* from =
      (__global const float8*)(x + (size_t)(gather != 0 ? step[rows + row] : row) * x_stride);
  float8 own[OWN_VECTORS], by[OWN_VECTORS];
  MR_EACH(i, OWN_VECTORS) {
    own[i] = MR_OWNS(i, item) ? from[i * ITEMS + item] : (float8)(0.0f);
  }
  MR_EACH(i, OWN_VECTORS) {
    by[i] = MR_OWNS(i, item) ? weight[i * ITEMS + item] : (float8)(0.0f);
  }
#if NORM_CENTERED
  float8 total = own[0];
  MR_EACH(i, OWN_VECTORS - 1) total = total + own[i + 1];
  const float mean = mr_group_sum(total, sums + WARPS, all) * inverse_width;
  MR_EACH(i, OWN_VECTORS) {
    if (MR_OWNS(i, item)) own[i] = own[i] - mean;
  }
#endif
  float8 squares = (float8)(0.0f);
  MR_EACH(i, OWN_VECTORS) squares = fma(own[i], own[i], squares);
  const float scale =
      mr_rsqrt(fma(mr_group_sum(squares, sums, all), inverse_width, epsilon));
  MR_EACH(i, OWN_VECTORS) {
    own[i] = (own[i] * scale) * by[i];
    if (!MR_OWNS(i, item)) continue;
    const uint v = i * ITEMS + item;
    if (out != 0) ((__global float8*)(out + (size_t)row * out_stride))[v] = own[i];
    if (codes != 0) codes[H_VECTOR_AT((size_t)row, v, code_stride / 4)] = mr_codes8(own[i]);
  }
#if NORM_BYTES
  if (bytes != 0) mr_store_bytes(own, 1.0f, bytes, row, tops, all);
#endif
}
