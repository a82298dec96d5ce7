#pragma once
// Blocks of plain halves for attention on the matrix unit (nvidia.cl), in local memory as operands
// are loaded from there.
//
// A page's keys are vectors of eight positions, two a channel; its values are vectors of eight
// channels, HEAD_DIM / 8 a position. In local memory keys are exchanged, and values have a vector
// between positions, so that the eight rows of a square never meet in a bank. Whatever lies in
// pages that the tile does not see, or is a value of a position that the sequence does not have
// yet, is zeros: a weight of 0 would not hide NaN.
#include "attention/blocks.cl"
#include "attention/work.h"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#if !LEVELS
#define KEY_BLOCK_VECTORS MATRIX_PLAIN_KEYS(HEAD_DIM)
#define VALUE_BLOCK_VECTORS MATRIX_PLAIN_VALUES(HEAD_DIM)
#define PAGE_VECTORS (2 * HEAD_DIM)   // of the keys or the values of a KV head
#define VALUE_VECTORS (HEAD_DIM / 8)  // of a position
#define VALUE_STRIDE (VALUE_VECTORS + 1)
#define KEY_AT(page, d, half) ((page) * PAGE_VECTORS + 2 * (d) + ((half) ^ ((d) / 4 & 1)))
#define VALUE_AT(page, slot, v) (((page) * PAGE_TOKENS + (slot)) * VALUE_STRIDE + (v))

// What a lane has of a warp's sums, relative to 2^m: of channels a[n], and of weights. Elements 2r
// and 2r + 1 are those of its row r.
typedef struct {
  float a[2 * OWN_CHUNKS][4], l[4], m[2];
} Sums;

// The queries of a warp as operand a, in registers or, where those do not suffice, in local memory.
#define LOCAL_QUERIES (MATRIX_QUERY_VECTORS(HEAD_DIM) > 0)
#if LOCAL_QUERIES
typedef __local uint4* Queries;  // [CHUNKS][32]
#else
typedef uint (*Queries)[4];  // [CHUNKS][4]
#endif
MR_GROUP_INLINE void mr_query_of(uint* words, Queries queries, uint c, uint lane) {
#if LOCAL_QUERIES
  const uint4 loaded = queries[c * 32 + lane];
  words[0] = loaded.x;
  words[1] = loaded.y;
  words[2] = loaded.z;
  words[3] = loaded.w;
#else
  MR_EACH(i, 4) words[i] = queries[c][i];
#endif
}

// Weights are multiplied by 2^WEIGHT_LOG2, so that those far below the largest are normal halves.
// The largest may be 16 times as large where a score has no bit for that much.
#define WEIGHT_LOG2 11.0f

// The channel of a chunk, of which operand a has element e of pair t or, with `later`, t + 4.
#define KEY_CHANNEL(t, later, e) (8 * (later) + 2 * (t) + (e))

// The vectors of a page that a work-item copies: i = item, item + GROUP_ITEMS, ... The places that
// depend on the work-item are computed once, so that copies differ by constants alone.
#define MR_PAGE_COPIES(i, item) \
  MR_UNROLLED for (uint i = 0; i < (PAGE_VECTORS + GROUP_ITEMS - 1) / GROUP_ITEMS; ++i) \
    if (PAGE_VECTORS % GROUP_ITEMS == 0 || (item) + i * GROUP_ITEMS < PAGE_VECTORS)

// Begin to copy the keys or the values of a block.
MR_GROUP_INLINE void mr_copy_keys(__local uint4* to, const Source* source, uint block, uint item) {
  to += KEY_AT(0, item / 2, item % 2);
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    int exists;
    __global const uint4* from =
        mr_page(source, block * BLOCK_PAGES + page, source->keys_at, &exists) + item;
    MR_PAGE_COPIES(i, item) {
      mr_copy16_if(exists, to + page * PAGE_VECTORS + i * GROUP_ITEMS, from + i * GROUP_ITEMS);
    }
  }
}
MR_GROUP_INLINE void mr_copy_values(__local uint4* to, const Source* source, uint block,
                                    uint item) {
#if GROUP_ITEMS % VALUE_VECTORS == 0
  to += VALUE_AT(0, item / VALUE_VECTORS, item % VALUE_VECTORS);
#define MR_SLOT(item, i) ((item) / VALUE_VECTORS + (i) * (GROUP_ITEMS / VALUE_VECTORS))
#define MR_VALUE_AT(page, item, i) VALUE_AT(page, (i) * (GROUP_ITEMS / VALUE_VECTORS), 0)
#else
#define MR_SLOT(item, i) (((item) + (i) * GROUP_ITEMS) / VALUE_VECTORS)
#define MR_VALUE_AT(page, item, i) \
  VALUE_AT(page, MR_SLOT(item, i), ((item) + (i) * GROUP_ITEMS) % VALUE_VECTORS)
#endif
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    int exists;
    const uint number = block * BLOCK_PAGES + page, position = number * PAGE_TOKENS;
    __global const uint4* from = mr_page(source, number, source->values_at, &exists) + item;
    if (position + PAGE_TOKENS - 1 <= source->last) {
      MR_PAGE_COPIES(i, item) {
        mr_copy16_if(exists, to + MR_VALUE_AT(page, item, i), from + i * GROUP_ITEMS);
      }
    } else {
      MR_PAGE_COPIES(i, item) {
        mr_copy16_if(exists && position + MR_SLOT(item, i) <= source->last,
                     to + MR_VALUE_AT(page, item, i), from + i * GROUP_ITEMS);
      }
    }
  }
}

// The key of a block, of which lane 4g + t has the score in element 2r + i of s[n] for its row
// g + 8r.
#define KEY_OF(n, t, i) (8 * (n) + 2 * (t) + (i))

// The products of the queries and a block's keys, chunk after chunk. Row r of square m of four is a
// channel of the chunk and of the next, or of one chunk the channel's two halves of positions.
#if SHARED_ROWS
#define KEY_SQUARES(m, r) KEY_AT(0, ((m) < squares ? (m) : (m) - 2) * 8 + (r), side)
// Of eight keys, those of square `tile`.
MR_GROUP_INLINE void mr_one_tile(float* s, Queries queries,
                                 __local const uint4* keys, uint tile,
                                 uint lane MR_MMA_PARAMETER) {
  const uint side = tile % 2;
  keys += KEY_AT(tile / 2, 0, 0);
  MR_EACH(i, 4) s[i] = 0.0f;
  MR_UNIT_EACH(pair, (CHUNKS + 1) / 2) {
    const uint c = 2 * pair, squares = c + 1 < CHUNKS ? 4 : 2;
    uint4 k;
    uint q[4];
    MR_LOAD_TURNED(k, keys + KEY_AT(0, 16 * c, 0), KEY_SQUARES, lane);
    const uint first[2] = {k.x, k.y}, second[2] = {k.z, k.w};
    mr_query_of(q, queries, c, lane);
    mr_mma_halves(s, q, first);
    if (c + 1 < CHUNKS) {
      mr_query_of(q, queries, c + 1, lane);
      mr_mma_halves(s, q, second);
    }
  }
}
#else
#define KEY_SQUARES(m, r) KEY_AT(0, (m) % 2 * 8 + (r), (m) / 2)
MR_GROUP_INLINE void mr_all_tiles(float s[KEY_TILES][4], Queries queries,
                                  __local const uint4* keys, uint lane MR_MMA_PARAMETER) {
  uint4 next[BLOCK_PAGES];  // loaded before the products of the chunk before
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    MR_LOAD_TURNED(next[page], keys + KEY_AT(page, 0, 0), KEY_SQUARES, lane);
  }
  MR_UNIT_EACH(n, KEY_TILES) MR_EACH(i, 4) s[n][i] = 0.0f;
  MR_UNIT_EACH(c, CHUNKS) {
    uint q[4];
    uint4 k[BLOCK_PAGES];
    mr_query_of(q, queries, c, lane);
    MR_UNIT_EACH(page, BLOCK_PAGES) {
      k[page] = next[page];
      if (c + 1 < CHUNKS) {
        MR_LOAD_TURNED(next[page], keys + KEY_AT(page, 16 * c + 16, 0), KEY_SQUARES, lane);
      }
    }
    MR_UNIT_EACH(page, BLOCK_PAGES) {
      const uint first[2] = {k[page].x, k[page].y}, second[2] = {k[page].z, k[page].w};
      mr_mma_halves(s[2 * page], q, first);
      mr_mma_halves(s[2 * page + 1], q, second);
    }
  }
}
#endif

// Adds a block's values, times the weights w[page], which are operand a, to the sums a[n] of the
// eight channels 2 * first + n, and the weights to l. Chunks beyond the last are the last: nobody
// asks for their sums.
#define VALUE_SQUARES(m, r) VALUE_AT(0, (m) % 2 * 8 + (r), (m) / 2)
#define MR_LOAD_VALUES(to, i)                                                              \
  MR_LOAD_TURNED(to,                                                                       \
                 values + VALUE_AT((i) / OWN_CHUNKS, 0,                                     \
                                   2 * min(first + (i) % OWN_CHUNKS, (uint)(CHUNKS - 1))), \
                 VALUE_SQUARES, lane)
MR_GROUP_INLINE void mr_add_block(Sums* sums, float s[KEY_TILES][4], uint w[BLOCK_PAGES][4],
                                  __local const uint4* values, uint first,
                                  uint lane MR_MMA_PARAMETER) {
  const uint ones[2] = {0x3c003c00, 0x3c003c00};
  uint4 next;
  MR_LOAD_VALUES(next, 0);
  MR_UNIT_EACH(i, BLOCK_PAGES * OWN_CHUNKS) {
    const uint page = i / OWN_CHUNKS, c = i % OWN_CHUNKS;
    const uint4 v = next;
    if (i + 1 < BLOCK_PAGES * OWN_CHUNKS) MR_LOAD_VALUES(next, i + 1);
    const uint low[2] = {v.x, v.y}, high[2] = {v.z, v.w};
    mr_mma_halves(sums->a[2 * c], w[page], low);
    mr_mma_halves(sums->a[2 * c + 1], w[page], high);
  }
  MR_UNIT_EACH(page, BLOCK_PAGES) mr_mma_halves(sums->l, w[page], ones);
}
#endif
