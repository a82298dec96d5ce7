#pragma once
// Windows, soft caps and sinks: which keys a query sees, and how its scores count. Contract:
// generic.cl.
//
//   defines, set only if the model has the feature, so that other models compile no code for it:
//     WINDOW    how many positions a query sees; its own is the last of them
//     SOFT_CAP  the limit of a score's magnitude, a float
//     SINKS     1: each query head has a logit that takes part in its softmax and has no value
//     STORES    0: the layer attends to another layer's keys and values, and stores none
#include "common/cap.cl"
#include "kv/layout.cl"

#ifndef WINDOW
#define WINDOW 0
#endif
#ifndef SINKS
#define SINKS 0
#endif
#ifndef STORES
#define STORES 1
#endif
// A cap applies to true scores, so the part that centered keys lack is added before it, not after.
#if KEY_CENTERED && defined(SOFT_CAP)
#define MEAN_IN_SCORES 1
#else
#define MEAN_IN_SCORES 0
#endif

static inline uint mr_first_seen(uint position) {
#if WINDOW > 0
  return position < WINDOW ? 0 : position - WINDOW + 1;
#else
  return 0;
#endif
}

// How many positions of a segment lie in pages before the page of the first position seen.
static inline uint mr_skipped(uint position, uint segment) {
#if WINDOW > 0
  const uint start = segment * SEGMENT_TOKENS;
  const uint first = mr_first_seen(position) / PAGE_TOKENS * PAGE_TOKENS;
  return first > start ? first - start : 0;
#else
  return 0;
#endif
}
