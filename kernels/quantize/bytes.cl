// Makes bytes (code_block.h) of rows of floats, or of halves, for products of math int8
// (rotate.cl).
//
//   from    float rows of x_stride floats each, 8 * VECTORS of each read; or with FROM_HALVES 1
//           rows of halves, x_stride words each (code_block.h)
//   out     rows of bytes for as many channels
//   launch  one group of ITEMS work-items per row
//
// Limit: memory, 2 bytes of halves read and 1 written a channel.
//
// Defines: VECTORS, ITEMS (byte_row.cl), MATRIX_UNIT (rotate.cl), FROM_HALVES.
#include "common/prelude.cl"
#include "quantize/byte_row.cl"
#include "quantize/code_block.h"

#ifndef FROM_HALVES
#define FROM_HALVES 0
#endif
#define CHANNEL_UNIT (FROM_HALVES ? H_UNIT : 1.0f)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void quantize_bytes(__global const uchar* from, __global uint2* out, uint x_stride) {
  MR_EXCHANGE_MEMORY
  __local int tops[WARPS];
  const uint item = (uint)get_local_id(0);
  const size_t row = get_group_id(0);
  float8 own[OWN_VECTORS];
  MR_EACH(i, OWN_VECTORS) {
    const uint v = i * ITEMS + item;
    own[i] = (float8)(0.0f);
    if (!MR_OWNS(i, item)) continue;
#if FROM_HALVES
    const uint4 words = ((__global const uint4*)from)[H_VECTOR_AT(row, v, x_stride / 4)];
    own[i] = MR_EIGHT_CHANNELS(words);
#else
    own[i] = ((__global const float8*)((__global const float*)from + row * x_stride))[v];
#endif
  }
  mr_store_bytes(own, CHANNEL_UNIT, out, row, tops, all);
}
