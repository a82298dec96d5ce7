#pragma once
// The passes of experts along rows for NVIDIA GPUs: route.cl with a warp for each token in place of
// a work-item, and combine of runs.cl with a group for each. Arguments, order of sums and bits are
// those of these files; there is but one group of experts, so `groups` is 1.
//
//   route    launch groups (tokens) of 32 work-items: work-item l has the experts l, l + 32, ...
//   combine  launch groups (tokens) of ITEMS work-items
//   defines  EXPERTS; USED, of a token; ITEMS
// Limit: latency, of a tree of five steps for each choice, and of one read of the rows.
#include "common/math.cl"
#include "common/prelude.cl"
#include "common/sigmoid.cl"
#include "experts/table.h"

#ifndef EXPERTS
#define EXPERTS 8
#endif
#ifndef USED
#define USED 2
#endif
#ifndef ITEMS
#define ITEMS 128
#endif

#define WARP 32
#define EACH ((EXPERTS + WARP - 1) / WARP)  // experts of a work-item
#define VECTORS ((EXPERTS + 15) / 16)       // of 16 lanes, in which sums go

// mr_keys of route.cl.
static inline uint mr_key(float x) {
  const int bits = as_int(x + 0.0f);
  return x == x ? (uint)(bits ^ ((bits >> 31) | (int)0x80000000)) : 1u;
}

// The sum of all probabilities in the order of route.cl: 16 lanes, each ascending, then a tree.
MR_GROUP_INLINE float mr_sum_of_lanes(__local const float* p, __local float* sums, uint item) {
  if (item < 16) {
    float sum = 0.0f;
    for (uint i = 0; i < VECTORS; ++i) sum = sum + p[16 * i + item];
    sums[item] = sum;
  }
  for (uint step = 8; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) sums[item] = sums[item] + sums[item + step];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return sums[0];
}

// The largest of all work-items' numbers.
MR_GROUP_INLINE int mr_largest(int own, __local int* all, uint item) {
  all[item] = own;
  for (uint step = WARP / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) all[item] = max(all[item], all[item + step]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int largest = all[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

// The expert with the largest of all keys, the lowest one of equals.
MR_GROUP_INLINE uint mr_best(const uint* keys, __local uint* key, __local uint* at, uint item) {
  uint best = keys[0], place = item;
  MR_EACH(i, EACH) {
    if (keys[i] > best) {
      best = keys[i];
      place = i * WARP + item;
    }
  }
  key[item] = best;
  at[item] = place;
  for (uint step = WARP / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < step) {
      const uint other = key[item + step];
      if (other > key[item] || (other == key[item] && at[item + step] < at[item])) {
        key[item] = other;
        at[item] = at[item + step];
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint out = at[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return out;
}

// Turns the chosen probabilities, or logits, into weights, as route.cl does.
static inline void mr_weigh(float* w, uint kind, uint flags, float scale, float extra,
                            __global const float* factors, const uint* chosen) {
  if (kind == 2) {
    float top = w[0], sum = 0.0f;
    MR_EACH(r, USED) top = fmax(top, w[r]);
    MR_EACH(r, USED) {
      w[r] = mr_exp(w[r] - top);
      sum = sum + w[r];
    }
    const float inverse = mr_recip(sum);
    MR_EACH(r, USED) w[r] = w[r] * inverse;
  }
  float sum = 0.0f;
  MR_EACH(r, USED) sum = sum + w[r];
  const float inverse = mr_recip(sum + 1e-20f);
  MR_EACH(r, USED) {
    if ((flags & ROUTE_NORMALIZED) != 0) w[r] = w[r] * inverse;
    if (factors != 0) w[r] = w[r] * factors[chosen[r]];
    w[r] = extra == extra ? w[r] * scale : NAN;
  }
}

__kernel __attribute__((reqd_work_group_size(WARP, 1, 1)))
void route(__global const float* logits, __global const float* bias, __global float* weights,
           __global uint* chosen, __global uint* runs, __global uint2* slots, __global uint* places,
           uint stride, uint used, uint kind, uint flags, uint groups, uint groups_used,
           uint shared_at, float scale, __global const float* factors) {
  __local float p[EACH * WARP], sums[16];
  __local int sizes[WARP];
  __local uint best_key[WARP], best_at[WARP];
  const uint item = (uint)get_local_id(0), token = (uint)get_group_id(0);
  logits += (size_t)token * stride;
  weights += token * (USED + 1);
  chosen += token * USED;
  float own[EACH];
  uint keys[EACH];
  int size = 0;
  float top = -INFINITY;
  MR_EACH(i, EACH) {
    const uint e = i * WARP + item;
    own[i] = e < EXPERTS ? logits[e] : -INFINITY;
    top = fmax(top, own[i]);
    keys[i] = mr_key(own[i]);
    if (e < EXPERTS) size = max(size, as_int(own[i]) & 0x7fffffff);
  }
  if (shared_at != 0) size = max(size, as_int(logits[shared_at]) & 0x7fffffff);
  const bool finite = mr_largest(size, sizes, item) < 0x7f800000;
  if (kind == 1) {
    MR_EACH(i, EACH) own[i] = mr_recip(mr_exp(fmin(-own[i], 80.0f)) + 1.0f);
  } else if (kind == 0) {
    // As integers with the order of floats; what is not finite does not matter here.
    const int order = as_int(top) ^ (as_int(top) >> 31 & 0x7fffffff);
    const int most = mr_largest(order, sizes, item);
    top = as_float(most ^ (most >> 31 & 0x7fffffff));
    MR_EACH(i, EACH) {
      const uint e = i * WARP + item;
      own[i] = e < EXPERTS ? mr_exp(own[i] - top) : 0.0f;
      p[e] = own[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float inverse = mr_recip(mr_sum_of_lanes(p, sums, item));
    MR_EACH(i, EACH) own[i] = own[i] * inverse;
  }
  MR_EACH(i, EACH) {
    const uint e = i * WARP + item;
    p[e] = own[i];
    if ((flags & ROUTE_BIAS) != 0) keys[i] = mr_key(own[i] + (e < EXPERTS ? bias[e] : 0.0f));
    if (e >= EXPERTS) keys[i] = 0;
  }
  uint best[USED];
  MR_EACH(r, USED) {
    best[r] = mr_best(keys, best_key, best_at, item);
    MR_EACH(i, EACH) {
      if (i * WARP + item == best[r]) keys[i] = 0;
    }
  }
  if (item != 0) return;
  float w[USED];
  MR_EACH(r, USED) w[r] = p[best[r]];
  float extra = shared_at != 0 ? mr_sigmoid(logits[shared_at]) : 1.0f;
  if (!finite) extra = NAN;
  mr_weigh(w, kind, flags, scale, extra, factors, best);
  MR_EACH(r, USED) {
    weights[r] = w[r];
    chosen[r] = best[r];
  }
  weights[USED] = extra;
  if ((flags & ROUTE_DIRECT) == 0) return;
  if (token == 0) runs[0] = (uint)get_num_groups(0) * USED;
  MR_EACH(r, USED) {
    const uint slot = token * USED + r;
    vstore4((uint4)(best[r], slot, 1, token), 1 + slot, runs);
    slots[slot] = (uint2)(best[r], token);
    places[slot] = slot;
  }
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void combine(__global const float* rows, __global const float* weights,
             __global const uint* places, __global const float* shared, __global float* out,
             uint used, uint blocks, uint row_stride, uint shared_stride, uint out_stride,
             uint mode, float scale) {
  const uint item = (uint)get_local_id(0), token = (uint)get_group_id(0);
  __global const float* row[USED];
  float weight[USED];
  MR_EACH(r, USED) {
    row[r] = rows + (size_t)places[token * USED + r] * row_stride;
    weight[r] = weights[token * (USED + 1) + r];
  }
  const float shared_weight = weights[token * (USED + 1) + USED];
  shared += (size_t)token * shared_stride;
  out += (size_t)token * out_stride;
  for (uint v = item; v < 4 * blocks; v += ITEMS) {
    float4 of[USED], sum = (float4)(0.0f);
    MR_EACH(r, USED) of[r] = vload4(v, row[r]);
    MR_EACH(r, USED) sum = fma((float4)(weight[r]), of[r], sum);
    if ((mode & COMBINE_SHARED) != 0) {
      sum = fma((float4)(shared_weight), vload4(v, shared), sum);
    }
    const float4 by = (float4)(scale);
    vstore4((mode & COMBINE_ADDS) != 0 ? fma(by, sum, vload4(v, out)) : by * sum, v, out);
  }
}
