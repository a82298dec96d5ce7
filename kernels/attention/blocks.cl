#pragma once
// Blocks of keys and values of attention on the matrix unit (nvidia.cl), in local memory as the
// unit's operands are loaded from there.
//
// A block is MATRIX_BLOCK positions, from a multiple of that on. A page's keys are vectors of eight
// positions, two a channel; its values are vectors of eight channels, HEAD_DIM / 8 a position. In
// local memory keys are exchanged, and values have a vector between positions, so that the eight
// rows of a square never meet in a bank. Whatever lies in pages that the tile does not see, or is a
// value of a position that the sequence does not have yet, is zeros: a weight of 0 would not hide
// NaN.
#include "attention/shape.cl"
#include "attention/work.h"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#define BLOCK_PAGES (MATRIX_BLOCK / PAGE_TOKENS)
#define SEGMENT_BLOCKS (SEGMENT_TOKENS / MATRIX_BLOCK)
#define SEGMENT_PAGES (SEGMENT_TOKENS / PAGE_TOKENS)
#define KEPT_PAGES (2 * SEGMENT_PAGES)  // page numbers that a group knows
#define CHUNKS (HEAD_DIM / 16)          // of channels, which an instruction takes
#define GROUP_ITEMS (32 * GROUP_WARPS)
#define PAGE_VECTORS (2 * HEAD_DIM)  // of the keys or the values of a KV head
#define VALUE_STRIDE (HEAD_DIM / 8 + 1)
#define KEY_AT(page, d, half) ((page)*PAGE_VECTORS + 2 * (d) + ((half) ^ ((d) / 4 & 1)))
#define VALUE_AT(page, slot, v) (((page)*PAGE_TOKENS + (slot)) * VALUE_STRIDE + (v))

// Where a tile's keys and values are: the pages from first_page to last_page, up to position
// `last`, with the KV head's keys and values at these places in each. Page p is pages[p %
// KEPT_PAGES].
typedef struct {
  __global const uchar* kv;
  __local const uint* pages;
  uint first_page, last_page, last, keys_at, values_at;
} Source;

// A vector of a block in global memory, and whether there is such a page.
MR_GROUP_INLINE __global const uint4* mr_block_vector(const Source* source, uint block, uint i,
                                                      uint at, int* exists) {
  const uint page = block * BLOCK_PAGES + i / PAGE_VECTORS;
  *exists = page >= source->first_page && page <= source->last_page;
  const size_t begin = (size_t)source->pages[page % KEPT_PAGES] * PAGE_BYTES + at;
  return (__global const uint4*)(source->kv + begin) + i % PAGE_VECTORS;
}

// Begin to copy the keys or the values of a block.
MR_GROUP_INLINE void mr_copy_keys(__local uint4* to, const Source* source, uint block, uint item) {
  MR_UNROLLED for (uint i = item; i < BLOCK_PAGES * PAGE_VECTORS; i += GROUP_ITEMS) {
    int exists;
    __global const uint4* from = mr_block_vector(source, block, i, source->keys_at, &exists);
    const uint v = i % PAGE_VECTORS;
    mr_copy16_if(exists, to + KEY_AT(i / PAGE_VECTORS, v / 2, v % 2), from);
  }
}
MR_GROUP_INLINE void mr_copy_values(__local uint4* to, const Source* source, uint block,
                                    uint item) {
  MR_UNROLLED for (uint i = item; i < BLOCK_PAGES * PAGE_VECTORS; i += GROUP_ITEMS) {
    int exists;
    __global const uint4* from = mr_block_vector(source, block, i, source->values_at, &exists);
    const uint slot = i % PAGE_VECTORS / (HEAD_DIM / 8);
    const uint position = block * MATRIX_BLOCK + i / PAGE_VECTORS * PAGE_TOKENS + slot;
    mr_copy16_if(exists && position <= source->last,
                 to + VALUE_AT(i / PAGE_VECTORS, slot, i % (HEAD_DIM / 8)), from);
  }
}

// The places of row r of square m of four, from the first channel of a chunk on: channels, then
// positions, in halves of eight.
#define KEY_SQUARES(m, r) KEY_AT(0, (m) % 2 * 8 + (r), (m) / 2)
#define VALUE_SQUARES(m, r) VALUE_AT(0, (m) % 2 * 8 + (r), (m) / 2)

// The key of a block, of which lane 4g + t has the score in element 2r + i of s[n] for its row
// g + 8r.
#define KEY_OF(n, t, i) (8 * (n) + 2 * (t) + (i))
#define KEY_TILES (MATRIX_BLOCK / 8)

// The queries of a warp as operand a, in registers or, where those do not suffice, in local memory.
#define LOCAL_QUERIES (MATRIX_QUERY_VECTORS(HEAD_DIM) > 0)
#if LOCAL_QUERIES
typedef __local uint4* Queries;  // [CHUNKS][32]
#else
typedef uint (*Queries)[4];  // [CHUNKS][4]
#endif

// s[n] = the products of the queries and a block's keys, chunk after chunk.
MR_GROUP_INLINE void mr_scores(float s[KEY_TILES][4], Queries queries, __local const uint4* keys,
                               uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(n, KEY_TILES) MR_EACH(i, 4) s[n][i] = 0.0f;
  MR_UNIT_EACH(c, CHUNKS) {
#if LOCAL_QUERIES
    const uint4 loaded = queries[c * 32 + lane];
    const uint q[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
#else
    const uint* q = queries[c];
#endif
    MR_UNIT_EACH(page, BLOCK_PAGES) {
      uint4 k;
      MR_LOAD_TURNED(k, keys + KEY_AT(page, 16 * c, 0), KEY_SQUARES, lane);
      const uint first[2] = {k.x, k.y}, second[2] = {k.z, k.w};
      mr_mma_halves(s[2 * page], q, first);
      mr_mma_halves(s[2 * page + 1], q, second);
    }
  }
}

// Adds a block's values, times the weights w[page], which are operand a, to the sums a[n][i] of
// channels 8n, and the weights to l.
MR_GROUP_INLINE void mr_add_block(float a[2 * CHUNKS][4], float* l, uint w[BLOCK_PAGES][4],
                                  __local const uint4* values, uint lane MR_MMA_PARAMETER) {
  const uint ones[2] = {0x3c003c00, 0x3c003c00};
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    MR_UNIT_EACH(c, CHUNKS) {
      uint4 v;
      MR_LOAD_TURNED(v, values + VALUE_AT(page, 0, 2 * c), VALUE_SQUARES, lane);
      const uint first[2] = {v.x, v.y}, second[2] = {v.z, v.w};
      mr_mma_halves(a[2 * c], w[page], first);
      mr_mma_halves(a[2 * c + 1], w[page], second);
    }
    mr_mma_halves(l, w[page], ones);
  }
}
