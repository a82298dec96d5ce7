#pragma once
// Rotates the keys of a tile, and writes its keys and values into their pages. generic.cl defines
// the rounding. qkv is only read: attention rotates queries where it reads them
// (attention/tiles.cl), and it also stores a token that is alone in its tile.
//
// Packed values of a page share words, so one work-item writes all tokens that a step brings to a
// page: the one whose tile has the first of them.
// Limit: that of rope/cpu.cl. This is also a phase of a whole layer.
#include "kv/layout.cl"
#include "rope/rotate.cl"
#include "step/table.cl"

// Returns whether `token` is on the same page as the token before it, of the same sequence.
static inline int mr_continues_page(__global const uint* step, uint positions, uint tables,
                                    uint token) {
  const uint position = step[positions + token];
  return token > 0 && position % PAGE_TOKENS != 0 &&
         step[tables + token - 1] == step[tables + token] &&
         step[positions + token - 1] + 1 == position;
}

static inline void mr_store_step_token(__global const float* qkv, __global const float* rope,
                                       __global const float* means, __global uchar* kv,
                                       __global const uint* step, uint positions, uint tables,
                                       uint token, uint qkv_stride) {
  const uint position = step[positions + token];
  const uint page = mr_own_page(step, positions, tables, token);
  for (uint g = 0; g < KV_HEADS; ++g) {
    mr_store_token(qkv + (size_t)token * qkv_stride, rope, means, kv, page, position, g);
  }
}

static inline void mr_store_tile(__global const float* qkv, __global const float* rope,
                                 __global const float* means, __global uchar* kv,
                                 __global const uint* step, uint positions, uint tables,
                                 __global const TileRecord* tile, uint qkv_stride) {
  const uint last = tile->token + tile->tokens;
#if VALUE_KIND == KV_PLAIN
  for (uint token = tile->token; token < last; ++token) {
    mr_store_step_token(qkv, rope, means, kv, step, positions, tables, token, qkv_stride);
  }
#else
  const uint tokens = tables - positions;
  uint token = tile->token;
  while (token < last && mr_continues_page(step, positions, tables, token)) ++token;
  if (token == last) return;
  // Stores the tile's own tokens, and those after them on its last page.
  do {
    mr_store_step_token(qkv, rope, means, kv, step, positions, tables, token, qkv_stride);
    ++token;
  } while (token < last ||
           (token < tokens && mr_continues_page(step, positions, tables, token)));
#endif
}
