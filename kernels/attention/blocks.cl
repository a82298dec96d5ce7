#pragma once
// Blocks of keys and values of attention on the matrix unit (nvidia.cl): where they are, and what
// multiplies them. half_blocks.cl and level_blocks.cl have the rest. A block is KEY_BLOCK
// positions, from a multiple of that on.
//
// SHARED_ROWS 0: each warp of a group has rows of its own. 1: all warps have the same rows; each
// computes the scores of a square of eight keys, and the sums of OWN_CHUNKS chunks of channels.
//
// LEVELS 1: both sides are codes, which are multiplied in integers (nvidia_levels.cl).
#include "attention/shape.cl"
#include "attention/work.h"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#ifndef SHARED_ROWS
#define SHARED_ROWS 0
#endif
#ifndef LEVELS
#define LEVELS 0
#endif
#ifndef RING
#define RING 2
#endif
#define KEY_BLOCK (LEVELS ? LEVEL_BLOCK : MATRIX_BLOCK)
#define BLOCK_PAGES (KEY_BLOCK / PAGE_TOKENS)
#define SEGMENT_BLOCKS (SEGMENT_TOKENS / KEY_BLOCK)
#define SEGMENT_PAGES (SEGMENT_TOKENS / PAGE_TOKENS)
#define KEPT_PAGES (2 * SEGMENT_PAGES)  // page numbers that a group knows
#define CHUNKS (HEAD_DIM / 16)          // of channels, which an instruction takes
#define OWN_CHUNKS (SHARED_ROWS ? (CHUNKS + GROUP_WARPS - 1) / GROUP_WARPS : CHUNKS)
#define KEY_TILES (KEY_BLOCK / 8)
#define GROUP_ITEMS (32 * GROUP_WARPS)
#define WARP_TOKENS (MATRIX_ROWS / GROUP)  // of a wide tile's warp

// Where a tile's keys and values are: the pages from first_page to last_page, up to position
// `last`, with the KV head's keys and values, and their parameters, at these places in each. Page p
// is pages[p % KEPT_PAGES].
typedef struct {
  __global const uchar* kv;
  __local const uint* pages;
  uint first_page, last_page, last, keys_at, values_at, key_parameters_at, value_parameters_at;
} Source;

// What is at such a place of a page, and whether there is such a page.
MR_GROUP_INLINE __global const uint4* mr_page(const Source* source, uint page, uint at,
                                              int* exists) {
  *exists = page >= source->first_page && page <= source->last_page;
  const size_t begin = (size_t)source->pages[page % KEPT_PAGES] * PAGE_BYTES + at;
  return (__global const uint4*)(source->kv + begin);
}
