#pragma once
// The unit that a group of attention on the matrix unit (nvidia.cl) works on, and its ring of
// blocks.
#include "attention/blocks.cl"
#include "attention/code_copies.cl"
#include "attention/half_blocks.cl"
#include "attention/own_token.cl"
#include "attention/shape.cl"
#include "attention/warp.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"
#include "step/table.cl"

// What a group works on.
typedef struct {
  MatrixUnit unit;
  Source source;
  __global const uint* table;
  uint begin, end;  // blocks
  uint set, segment;  // of heads; the tile's first
} Work;

MR_GROUP_INLINE void mr_begin_work(Work* own, __global const uchar* kv, __global const uint* step,
                                   uint units, __local uint* pages, uint item) {
  own->unit = *mr_matrix_unit(step, units, (uint)get_group_id(1));
  const MatrixUnit* unit = &own->unit;
  own->set = (uint)get_group_id(0);
  own->table = step + unit->table;
  const uint kv_head = own->set / (HEAD_SETS / KV_HEADS);
  const uint last = unit->position + unit->tokens - 1, seen = mr_first_seen(unit->position);
  own->source.kv = kv;
  own->source.pages = pages;
  own->source.first_page = seen / PAGE_TOKENS;
  own->source.last_page = last / PAGE_TOKENS;
  own->source.last = last;
  own->source.keys_at = (uint)mr_keys_at(0, kv_head);
  own->source.values_at = (uint)mr_values_at(0, kv_head);
  own->source.key_parameters_at = (uint)mr_key_parameters_at(0, kv_head);
  own->source.value_parameters_at = (uint)mr_value_parameters_at(0, kv_head);
  own->begin = max(unit->first * SEGMENT_BLOCKS, seen / KEY_BLOCK);
  own->end = min((unit->first + unit->count) * SEGMENT_BLOCKS, last / KEY_BLOCK + 1);
  own->segment = seen / SEGMENT_TOKENS;
  for (uint i = item; i < KEPT_PAGES; i += GROUP_ITEMS) {
    const uint page = unit->first * SEGMENT_PAGES + i;
    const int exists = page >= own->source.first_page && page <= own->source.last_page;
    pages[page % KEPT_PAGES] = exists ? own->table[page] : 0;
  }
  MR_GROUP_BARRIER();
}

#if OWN_TOKEN
// Stores the key and the value of the unit's only token.
MR_GROUP_INLINE void mr_store_unit(__global uchar* kv, const OwnToken* token, const Work* own,
                                   uint item) {
  mr_store_own(kv, token, own->source.pages[own->source.last_page % KEPT_PAGES],
               own->source.last % PAGE_TOKENS, own->set / (HEAD_SETS / KV_HEADS), item);
}
#endif

// Begin to copy a block's keys or values to a place of the ring, if the unit has such a block, as a
// set of copies.
MR_GROUP_INLINE void mr_fetch_keys(__local uint4* keys, const Work* own, uint place, uint block,
                                   uint item) {
  if (block < own->end) mr_copy_keys(keys + place * KEY_BLOCK_VECTORS, &own->source, block, item);
  MR_COPIES_BEGUN();
}
MR_GROUP_INLINE void mr_fetch_values(__local uint4* values, const Work* own, uint place, uint block,
                                     uint item) {
  if (block < own->end) {
    mr_copy_values(values + place * VALUE_BLOCK_VECTORS, &own->source, block, item);
  }
  MR_COPIES_BEGUN();
}
// All of the ring's keys but those of its last block come before the values of the block before.
MR_GROUP_INLINE void mr_fill_ring(__local uint4* keys, __local uint4* values, const Work* own,
                                  uint item) {
  MR_UNIT_EACH(i, RING) {
    mr_fetch_keys(keys, own, i, own->begin + i, item);
    if (i + 1 < RING) mr_fetch_values(values, own, i, own->begin + i, item);
  }
}
