#pragma once
// The ring of blocks of attention in levels (nvidia_levels.cl). With BULK_COPIES 1, of devices of
// compute capability 9.0 and later, a block's pages are copied by few instructions of a lane each,
// and arrive at barriers; else by all work-items, as unit.cl has it. What lies in pages that do not
// exist is anything.
//
//   MR_RING_MEMORY             a statement at the beginning of the kernel
//   MR_RING_PARAMETER, MR_RING_ARGUMENT  the last of functions that copy
//   mr_begin_ring, mr_level_keys, mr_level_values   before copies; begin to copy a block to a place
//   mr_await_keys, mr_await_values   wait for the block of a place, which has been there `phase`
//                              times before, odd or even
#include "attention/code_copies.cl"
#include "attention/unit.cl"
#include "common/prelude.cl"
#include "matmul/arrivals.cl"
#include "matmul/mma.cl"

#ifndef BULK_COPIES
#define BULK_COPIES 0
#endif

#if LEVELS
#if BULK_COPIES
#define MR_RING_MEMORY __local ulong arrivals[2 * RING];  // of keys and of values
#define MR_RING_PARAMETER , __local ulong* arrivals
#define MR_RING_ARGUMENT , arrivals

MR_GROUP_INLINE void mr_begin_ring(uint item, __local ulong* arrivals) {
  if (item == 0) {
    MR_EACH(i, 2 * RING) mr_barrier_init((uint)(size_t)(arrivals + i), 1);
    MR_BARRIERS_MADE();
  }
}
// Vectors of a side's codes and parameters.
MR_GROUP_INLINE void mr_copy_level_pages(__local uint4* to, const Source* source, uint block,
                                         uint codes_at, uint codes, uint parameters_at,
                                         uint parameters, uint item, __local ulong* arrival) {
  const uint first = block * BLOCK_PAGES, barrier = (uint)(size_t)arrival;
  if (item == 0) {
    const uint pages = min(source->last_page + 1, first + BLOCK_PAGES) -
                       max(source->first_page, first);
    mr_arrive_for_bytes(barrier, pages * (codes + parameters) * 16);
  }
  const uint index = item % BLOCK_PAGES;
  int exists;
  const int are_codes = item < BLOCK_PAGES;
  __global const uint4* from =
      mr_page(source, first + index, are_codes ? codes_at : parameters_at, &exists);
  if (item < 2 * BLOCK_PAGES && exists) {
    mr_copy_bytes((uint)(size_t)(to + index * (codes + parameters) + (are_codes ? 0 : codes)),
                  (__global const uchar*)from, (are_codes ? codes : parameters) * 16, barrier);
  }
}
MR_GROUP_INLINE void mr_level_keys(__local uint4* keys, const Work* own, uint place, uint block,
                                   uint item, __local ulong* arrivals) {
  if (block < own->end) {
    mr_copy_level_pages(keys + place * KEY_BLOCK_VECTORS, &own->source, block,
                        own->source.keys_at, KEY_CODES, own->source.key_parameters_at,
                        2 * KEY_PARAMETERS, item, arrivals + place);
  }
}
MR_GROUP_INLINE void mr_level_values(__local uint4* values, const Work* own, uint place,
                                     uint block, uint item, __local ulong* arrivals) {
  if (block < own->end) {
    mr_copy_level_pages(values + place * VALUE_BLOCK_VECTORS, &own->source, block,
                        own->source.values_at, VALUE_CODES, own->source.value_parameters_at,
                        2 * VALUE_PARAMETERS, item, arrivals + RING + place);
  }
}
MR_GROUP_INLINE void mr_await_keys(uint place, uint phase, __local ulong* arrivals) {
  mr_wait_for_phase((uint)(size_t)(arrivals + place), phase);
}
MR_GROUP_INLINE void mr_await_values(uint place, uint phase, __local ulong* arrivals) {
  mr_wait_for_phase((uint)(size_t)(arrivals + RING + place), phase);
}
MR_GROUP_INLINE void mr_await_block(uint place, uint phase, __local ulong* arrivals) {
  mr_await_keys(place, phase, arrivals);
  mr_await_values(place, phase, arrivals);
}
#else
#define MR_RING_MEMORY
#define MR_RING_PARAMETER
#define MR_RING_ARGUMENT
#define mr_begin_ring(item)
#define mr_level_keys mr_fetch_keys
#define mr_level_values mr_fetch_values
#define mr_await_keys(place, phase) MR_WAIT_FOR_COPIES(2 * RING - 2)
#define mr_await_values(place, phase) MR_WAIT_FOR_COPIES(2 * RING - 2)
#define mr_await_block(place, phase) MR_WAIT_FOR_COPIES(2 * RING - 2)
#endif

// Of a warp alone, all of the ring's keys but those of its last block come before the values of the
// block before; else whole blocks.
MR_GROUP_INLINE void mr_fill_levels(__local uint4* keys, __local uint4* values, const Work* own,
                                    uint item MR_RING_PARAMETER) {
  MR_UNIT_EACH(i, RING) {
    mr_level_keys(keys, own, i, own->begin + i, item MR_RING_ARGUMENT);
    if (GROUP_WARPS > 1 || i + 1 < RING) {
      mr_level_values(values, own, i, own->begin + i, item MR_RING_ARGUMENT);
    }
  }
}
#endif
