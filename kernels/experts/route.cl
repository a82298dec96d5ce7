#pragma once
// Chooses each token's experts and weighs them, from the router's logits.
//
//   logits   float [tokens][stride]: an expert each; if `shared_at` is not 0, the logit of the
//            shared expert's gate stands there
//   bias     float [16 * VECTORS]: added for the choice only; used if flags have ROUTE_BIAS
//   weights  float [tokens][used + 1]: those of the chosen experts, best first; then the shared
//            expert's: the sigmoid of its logit, or 1
//   chosen   uint [tokens][used]: the experts, best first
//   runs, slots, places  runs.cl; written if flags have ROUTE_DIRECT: each choice is its own run
//   kind     0 softmax of all logits, 1 sigmoid of each, 2 softmax of the chosen logits
//   groups   experts lie in so many groups of equal size, at most 32. If there are several, only
//            the `groups_used` best have experts to choose: those with the largest sums of their
//            two best experts' probabilities (with bias)
//   factors  float [EXPERTS], or null: the weight of a chosen expert is multiplied by its own
//   launch   one work-item a token
//   defines  EXPERTS, their number
//
// Experts are chosen by probability plus bias; without bias and groups, by logit, which has the
// same order but no ties by rounding. Equal ones go to the lowest id. Of kind 2 the logit itself
// takes the place of the probability. Weights are probabilities, divided by their sum + 1e-20 if
// flags have ROUTE_NORMALIZED, times scale. If one of a token's logits is not finite, its experts
// are valid and distinct, and all its weights are NaN, so that the fault shows in its result.
// Order of sums: over all experts, lanes of 16 ascending, then mr_sum16; over the chosen, best
// first.
// Limit: vector operations, (used + 30) for 16 experts, and 16 scalar ones for each choice.
#include "common/math.cl"
#include "common/prelude.cl"
#include "common/sigmoid.cl"
#include "experts/runs.cl"
#include "experts/table.h"

#define VECTORS ((EXPERTS + 15) / 16)

// Returns integers in the order of the floats, from 2 on; of NaN 1, and of both zeros the same. 0
// is left for what cannot be chosen.
static inline uint16 mr_keys(float16 x) {
  const int16 bits = as_int16(x + (float16)(0.0f));
  const uint16 key = as_uint16(bits ^ ((bits >> 31) | (int16)(0x80000000)));
  return select((uint16)(1u), key, isequal(x, x));
}

// Returns the index of the largest key in so many vectors, the lowest one of equals, and clears
// that key.
static inline uint mr_take_best(uint16* keys, uint vectors) {
  const uint16 lanes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  uint16 best = keys[0], at = lanes;
  for (uint i = 1; i < vectors; ++i) {
    const int16 more = keys[i] > best;
    best = select(best, keys[i], more);
    at = select(at, lanes + (uint16)(16 * i), more);
  }
  const uint *key = (const uint*)&best, *index = (const uint*)&at;
  uint lane = 0;
  for (uint l = 1; l < 16; ++l) {
    if (key[l] > key[lane] || (key[l] == key[lane] && index[l] < index[lane])) lane = l;
  }
  ((uint*)keys)[index[lane]] = 0;
  return index[lane];
}

static inline int16 mr_real_lanes(uint i) {
  const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return lanes + (int16)(16 * (int)i) < (int16)(EXPERTS);
}

// Turns logits into probabilities, in place.
static inline void mr_probabilities(float16* p, uint kind) {
  if (kind == 1) {
    for (uint i = 0; i < VECTORS; ++i) {
      p[i] = mr_recip16(mr_exp16(fmin(-p[i], (float16)(80.0f))) + (float16)(1.0f));
    }
  } else if (kind == 0) {
    float16 top = p[0], sums = (float16)(0.0f);
    for (uint i = 1; i < VECTORS; ++i) top = fmax(top, p[i]);
    const float16 most = (float16)(mr_max16(top));
    for (uint i = 0; i < VECTORS; ++i) {
      p[i] = select((float16)(0.0f), mr_exp16(p[i] - most), mr_real_lanes(i));
      sums = sums + p[i];
    }
    const float16 scale = (float16)(mr_recip(mr_sum16(sums)));
    for (uint i = 0; i < VECTORS; ++i) p[i] = p[i] * scale;
  }
}

// Clears the keys of experts outside the best groups.
static inline void mr_keep_groups(uint16* keys, const float* score, uint groups,
                                  uint groups_used) {
  const uint size = EXPERTS / groups;
  float16 sums[2] = {(float16)(0.0f), (float16)(0.0f)};
  for (uint g = 0; g < groups; ++g) {
    float best = -INFINITY, second = -INFINITY;
    for (uint e = g * size; e < (g + 1) * size; ++e) {
      second = fmax(second, fmin(best, score[e]));
      best = fmax(best, score[e]);
    }
    ((float*)sums)[g] = size > 1 ? best + second : best;
  }
  uint16 order[2] = {mr_keys(sums[0]), mr_keys(sums[1])};
  for (uint g = groups; g < 32; ++g) ((uint*)order)[g] = 0;
  uint kept = 0;
  for (uint i = 0; i < groups_used; ++i) kept |= 1u << mr_take_best(order, 2);
  for (uint e = 0; e < EXPERTS; ++e) {
    if ((kept >> (e / size) & 1u) == 0) ((uint*)keys)[e] = 0;
  }
}

// Replaces the chosen logits by their softmax.
static inline void mr_softmax_chosen(__global float* weights, uint used) {
  float top = weights[0], sum = 0.0f;
  for (uint r = 1; r < used; ++r) top = fmax(top, weights[r]);
  for (uint r = 0; r < used; ++r) {
    weights[r] = mr_exp(weights[r] - top);
    sum = sum + weights[r];
  }
  const float scale = mr_recip(sum);
  for (uint r = 0; r < used; ++r) weights[r] = weights[r] * scale;
}

// The arguments that are the same for all tokens.
typedef struct {
  __global const float* logits;
  __global const float* bias;
  __global float* weights;
  __global uint* chosen;
  __global uint* runs;
  __global uint2* slots;
  __global uint* places;
  uint stride, used, kind, flags, groups, groups_used, shared_at;
  float scale;
  __global const float* factors;
} Router;

static inline void mr_route(const Router* by, uint token, uint tokens) {
  const uint used = by->used, kind = by->kind, flags = by->flags;
  __global const float* logits = by->logits + (size_t)token * by->stride;
  __global float* weights = by->weights + token * (used + 1);
  __global uint* chosen = by->chosen + token * used;
  float16 p[VECTORS], score[VECTORS];
  uint16 keys[VECTORS];
  int16 size = (int16)(0);
  const bool by_logit = (flags & ROUTE_BIAS) == 0 && by->groups == 1;
  for (uint i = 0; i < VECTORS; ++i) {
    p[i] = select((float16)(-INFINITY), vload16(i, logits), mr_real_lanes(i));
    score[i] = p[i];
    const int16 magnitude = as_int16(p[i]) & (int16)(0x7fffffff);
    size = max(size, select((int16)(0), magnitude, mr_real_lanes(i)));
  }
  mr_probabilities(p, kind);
  for (uint i = 0; i < VECTORS; ++i) {
    if (!by_logit) score[i] = p[i];
    if ((flags & ROUTE_BIAS) != 0) score[i] = score[i] + vload16(i, by->bias);
    keys[i] = select((uint16)(0u), mr_keys(score[i]), mr_real_lanes(i));
  }
  if (by->groups > 1) {
    mr_keep_groups(keys, (const float*)score, by->groups, by->groups_used);
  }
  for (uint r = 0; r < used; ++r) {
    chosen[r] = mr_take_best(keys, VECTORS);
    weights[r] = ((const float*)p)[chosen[r]];
  }
  if (kind == 2) mr_softmax_chosen(weights, used);
  float sum = 0.0f;
  for (uint r = 0; r < used; ++r) sum = sum + weights[r];
  const float inverse = mr_recip(sum + 1e-20f);
  float extra = 1.0f;
  if (by->shared_at != 0) {
    extra = mr_sigmoid(logits[by->shared_at]);
    size = max(size, (int16)(as_int(logits[by->shared_at]) & 0x7fffffff));
  }
  for (uint l = 0; l < 16; ++l) {
    if (((const int*)&size)[l] >= 0x7f800000) extra = NAN;
  }
  for (uint r = 0; r < used; ++r) {
    if ((flags & ROUTE_NORMALIZED) != 0) weights[r] = weights[r] * inverse;
    if (by->factors != 0) weights[r] = weights[r] * by->factors[chosen[r]];
    weights[r] = isequal(extra, extra) ? weights[r] * by->scale : NAN;
  }
  weights[used] = extra;
  if ((flags & ROUTE_DIRECT) == 0) return;
  if (token == 0) by->runs[0] = tokens * used;
  for (uint r = 0; r < used; ++r) {
    const uint slot = token * used + r;
    vstore4((uint4)(chosen[r], slot, 1, token), 1 + slot, by->runs);
    by->slots[slot] = (uint2)(chosen[r], token);
    by->places[slot] = slot;
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void route(__global const float* logits, __global const float* bias, __global float* weights,
           __global uint* chosen, __global uint* runs, __global uint2* slots, __global uint* places,
           uint stride, uint used, uint kind, uint flags, uint groups, uint groups_used,
           uint shared_at, float scale, __global const float* factors) {
  const Router router = {logits, bias, weights, chosen, runs, slots, places, stride, used,
                         kind, flags, groups, groups_used, shared_at, scale,
                         factors};
  mr_route(&router, (uint)get_global_id(0), (uint)get_global_size(0));
}
