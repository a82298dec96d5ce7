#pragma once
// Sorts the choices of all tokens by expert; those of one expert stay in the order of tokens.
//
//   chosen   uint [choices], choice token * used + rank
//   runs, slots, places  runs.cl
//   cursors  uint [EXPERTS], scratch
//   launch   one group of ROW_ITEMS work-items. One alone counts and then places in two walks over
//            the choices; several take the experts in turns, and walk over all choices for each
//   defines  EXPERTS
// Limit: latency, some operations a choice; the products take a thousand times as long.
#include "common/prelude.cl"
#include "experts/runs.cl"

// Makes runs of the numbers of choices in `cursors`, which become the experts' first slots.
static inline void mr_make_runs(__global uint* runs, __global uint* cursors) {
  uint at = 0, count = 0;
  for (uint e = 0; e < EXPERTS; ++e) {
    const uint slots = cursors[e];
    cursors[e] = at;
    if (slots > 0) vstore4((uint4)(e, at, slots, 0), ++count, runs);
    at += slots;
  }
  runs[0] = count;
}

// Writes the token of each run's first slot.
static inline void mr_name_tokens(__global uint* runs, __global const uint2* slots) {
  for (uint r = 1; r <= runs[0]; ++r) runs[4 * r + 3] = slots[runs[4 * r + 1]].y;
}

#if ROW_ITEMS == 1
static inline void mr_sort(__global const uint* chosen, __global uint* runs,
                           __global uint2* slots, __global uint* places, __global uint* cursors,
                           uint choices, uint used) {
  for (uint e = 0; e < EXPERTS; ++e) cursors[e] = 0;
  for (uint i = 0; i < choices; ++i) ++cursors[chosen[i]];
  mr_make_runs(runs, cursors);
  for (uint i = 0; i < choices; ++i) {
    const uint slot = cursors[chosen[i]]++;
    slots[slot] = (uint2)(chosen[i], i / used);
    places[i] = slot;
  }
  mr_name_tokens(runs, slots);
}
#else
MR_GROUP_INLINE void mr_sort(__global const uint* chosen, __global uint* runs,
                             __global uint2* slots, __global uint* places,
                             __global uint* cursors, uint choices, uint used) {
  for (uint e = ROW_ITEM; e < EXPERTS; e += ROW_ITEMS) {
    uint count = 0;
    for (uint i = 0; i < choices; ++i) count += chosen[i] == e ? 1 : 0;
    cursors[e] = count;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (ROW_ITEM == 0) mr_make_runs(runs, cursors);
  barrier(CLK_GLOBAL_MEM_FENCE);
  for (uint e = ROW_ITEM; e < EXPERTS; e += ROW_ITEMS) {
    uint slot = cursors[e];
    for (uint i = 0; i < choices; ++i) {
      if (chosen[i] != e) continue;
      slots[slot] = (uint2)(e, i / used);
      places[i] = slot++;
    }
  }
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (ROW_ITEM == 0) mr_name_tokens(runs, slots);
}
#endif

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void sort_choices(__global const uint* chosen, __global uint* runs, __global uint2* slots,
                  __global uint* places, __global uint* cursors, uint choices, uint used) {
  mr_sort(chosen, runs, slots, places, cursors, choices, used);
}
