#pragma once
// Groups the rows of x by the experts that their tokens chose, for products on a matrix unit
// (matmul/tiles.cl): a counting sort, whose order is that of choices.
//
//   chosen   uint [choices], choice token * used + rank (route.cl)
//   x        rows of halves (quantize/code_block.h), VECTORS vectors of 16 bytes each
//   sorted   rows of halves by slot: those of an expert side by side, from a multiple of
//            TILE_GRANULE on; slots between experts keep what they hold
//   places   uint [choices]: the slot of each choice
//   tokens   uint by slot, scratch
//   tiles    the list of tiles of at most tile_columns slots (tiles.h)
//   launch   groups (any number, EXPERTS) of ITEMS work-items: those of an expert share its rows,
//            and each counts the choices of all
//   defines  EXPERTS, VECTORS, ITEMS
// Limit: latency of a few walks over all choices; with many tokens, memory.
#include "common/prelude.cl"
#include "experts/tiles.h"
#include "quantize/code_block.h"

#ifndef ITEMS
#define ITEMS 256
#endif
#ifndef EXPERTS
#define EXPERTS 8
#endif
#ifndef VECTORS
#define VECTORS 8
#endif

// Replaces each number of `counts` by the sum of those before it; returns that of this work-item.
MR_GROUP_INLINE uint mr_sum_before(__local uint* counts, uint item) {
  const uint own = counts[item];
  for (uint step = 1; step < ITEMS; step *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint before = item >= step ? counts[item - step] : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    counts[item] += before;
  }
  return counts[item] - own;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void group_rows(__global const uint* chosen, __global const uint4* x, __global uint4* sorted,
                __global uint* places, __global uint* tokens, __global uint* tiles, uint choices,
                uint used, uint tile_columns) {
  __local uint slots_of[EXPERTS], counts[ITEMS], before[2];
  const uint item = (uint)get_local_id(0), expert = (uint)get_group_id(1);
  const uint part = (uint)get_group_id(0), parts = (uint)get_num_groups(0);
  for (uint e = item; e < EXPERTS; e += ITEMS) slots_of[e] = 0;
  if (item < 2) before[item] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);

  // Each work-item has consecutive choices.
  const uint each = (choices + ITEMS - 1) / ITEMS;
  const uint begin = min(item * each, choices), end = min(begin + each, choices);
  uint own = 0;
  for (uint c = begin; c < end; ++c) {
    const uint e = chosen[c];
    atomic_inc(&slots_of[e]);
    own += e == expert ? 1 : 0;
  }
  counts[item] = own;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint e = item; e < expert; e += ITEMS) {
    const uint slots = slots_of[e];
    atomic_add(&before[0], (slots + TILE_GRANULE - 1) / TILE_GRANULE * TILE_GRANULE);
    atomic_add(&before[1], (slots + tile_columns - 1) / tile_columns);
  }
  uint rank = mr_sum_before(counts, item);
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint first = before[0], first_tile = before[1], slots = slots_of[expert];

  for (uint c = begin; c < end; ++c) {
    if (chosen[c] != expert) continue;
    if (rank % parts == part) {
      places[c] = first + rank;
      tokens[first + rank] = c / used;
    }
    ++rank;
  }
  if (part == 0) {
    const uint count = (slots + tile_columns - 1) / tile_columns;
    __global uint4* list = (__global uint4*)(tiles + TILES_AT(EXPERTS)) + first_tile;
    for (uint i = item; i < count; i += ITEMS) {
      const uint slot = i * tile_columns;
      list[i] = (uint4)(expert, first + slot, first + min(slot + tile_columns, slots), 0);
    }
    if (item == 0) {
      tiles[expert] = first_tile;
      if (expert == EXPERTS - 1) tiles[EXPERTS] = first_tile + count;
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  const uint rows = slots > part ? (slots - part + parts - 1) / parts : 0;
  for (uint i = item; i < rows * VECTORS; i += ITEMS) {
    const uint slot = first + part + i / VECTORS * parts, v = i % VECTORS;
    sorted[H_VECTOR_AT((size_t)slot, v, VECTORS)] =
        x[H_VECTOR_AT((size_t)tokens[slot], v, VECTORS)];
  }
}
