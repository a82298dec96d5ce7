#pragma once
// The sizes of a tile (tiles.cl), by the number of its queries: QUERIES, which a program may define
// anew for each kind of tile. SUMS: how many vectors of 16 sums the registers hold.
#include "attention/work.h"
#include "kv/layout.cl"
#include "matmul/target.cl"

#ifndef QUERIES
#define QUERIES 1
#endif
#ifndef SUMS
#define SUMS 16
#endif

#define MR_Q(name) MR_JOINED(name, QUERIES)
#define ROWS (QUERIES * GROUP)
#define ROW_VECTORS ((ROWS + 15) / 16)
#define RECORD_VECTORS RECORD_VECTORS_OF(ROWS, VALUE_DIM)
// A row of scores, padded so that rows do not fall on the same cache sets.
#define E_STRIDE (SEGMENT_TOKENS + 16)
#define NARROW (QUERIES == 1)
// How many pages, and how many blocks of channels, are processed together to keep SUMS sums going.
#define FIT (SUMS / ROWS)
#define PAGES_AT_ONCE (FIT >= 8 && KEY_KIND == KV_PLAIN ? 8 : FIT >= 4 ? 4 : FIT >= 2 ? 2 : 1)
#define SET_BLOCKS (VALUES_IN_KEYS ? VALUE_BLOCKS : VALUE_GROUP / 16)
#define BLOCKS_AT_ONCE                      \
  (SET_BLOCKS <= FIT                   ? SET_BLOCKS \
   : SET_BLOCKS % 4 == 0 && FIT >= 4   ? 4          \
   : SET_BLOCKS % 2 == 0 && FIT >= 2   ? 2          \
                                       : 1)
// The parameter sets of a key or value, and the size of a tile's queries: q [ROWS][HEAD_DIM], then,
// for affine keys, the sums of each row's groups, [ROWS][KEY_SETS].
#define KEY_SETS (HEAD_DIM / KEY_GROUP)
#define VALUE_SETS (HEAD_DIM / VALUE_GROUP)
#define QUERY_VECTORS (ROWS * CHANNEL_BLOCKS + (ROWS * KEY_SETS + 15) / 16)
// Integer dot products need functions that name their instructions (matmul/target.cl).
#if KEY_INTEGERS
#define SCORES_TARGET MR_TARGET
#else
#define SCORES_TARGET inline
#endif
