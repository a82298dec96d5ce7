#pragma once
// Makes bytes (quantize/rotate.cl) of the halves that attention on the matrix unit (nvidia.cl) has
// written, in its own launch: of a tile's rows once all sets of heads have written theirs, by the
// group that is done last. A row takes two bytes a channel, from the cache, and its loads are the
// only time that nothing else hides.
//
// Defines besides those of nvidia.cl: ROW_BYTES 1 if bytes are ever wanted; with it VECTORS, those
// of 8 channels of a row, and ITEMS (quantize/byte_row.cl), the work-items of a group.
#include "attention/blocks.cl"
#include "attention/warp.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "quantize/byte_row.cl"
#include "quantize/code_block.h"
#include "step/records.h"

#ifndef ROW_BYTES
#define ROW_BYTES 0
#endif

#if ROW_BYTES
#define MR_BYTES_MEMORY \
  MR_EXCHANGE_MEMORY    \
  __local int tops[WARPS];

// Counts a group of a tile that has written its outputs (`writes`), and makes bytes of the tile's
// rows if it is the last. `arrived` is local memory for a number. All work-items must call, after a
// barrier that follows the last use of `arrived`.
MR_GROUP_INLINE void mr_finish_bytes(__global const uint4* codes, __global uint2* bytes,
                                     volatile __global uint* written, const MatrixUnit* unit,
                                     int writes, uint code_stride, __local uint* arrived,
                                     uint item, __local int* tops, __local float8* all) {
  MR_PUBLISH();
  MR_GROUP_BARRIER();
  if (item == 0) arrived[0] = bytes != 0 && writes ? atomic_inc(written + unit->token) + 1 : 0;
  barrier(CLK_LOCAL_MEM_FENCE);  // before a branch, which PoCL needs
  if (arrived[0] == HEAD_SETS) {
    MR_PUBLISH();
    if (item == 0) written[unit->token] = 0;
    for (uint t = 0; t < unit->tokens; ++t) {
      const size_t row = unit->token + t;
      float8 own[OWN_VECTORS];
      MR_EACH(i, OWN_VECTORS) {
        const uint v = i * ITEMS + item;
        own[i] = (float8)(0.0f);
        if (MR_OWNS(i, item)) {
          const uint4 words = codes[H_VECTOR_AT(row, v, code_stride / 4)];
          own[i] = MR_EIGHT_CHANNELS(words);
        }
      }
      mr_store_bytes(own, H_UNIT, bytes, row, tops, all);
      barrier(CLK_LOCAL_MEM_FENCE);  // before tops are written again
    }
  }
}
#endif
