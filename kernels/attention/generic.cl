// Computes causal attention of a step's queries over their sequences' pages (kv/layout.cl).
//
//   out[token][head] = sum over keys j <= position of softmax(scale * q.k_j) v_j
//
// With VALUES_IN_KEYS v_j is a part of k_j (heads.cl). A head's output has VALUE_DIM channels.
// With WINDOW a query sees only keys j > position - WINDOW. With SOFT_CAP a score x counts as
// SOFT_CAP * tanh(x / SOFT_CAP). With SINKS the softmax has one more score, sinks[head], which has
// no value (shape.cl).
//
//   qkv   float [tokens][qkv_stride], queries rotated; out float [tokens][out_stride]
//   means with KEY_CENTERED, and the step table, as for rope_kv; sinks float [HEADS], with SINKS
//
// Contract, the same in every variant and for every way to cut tokens into items or steps:
//   keys come in segments of 256 at absolute positions 0, 256, ... For one segment:
//     s_j  = sum over channels, ascending, by fma from 0, of (q * scale) * k_j
//     m    = largest s_j;  e_j = mr_exp(s_j - m)
//     l    = lane j % 16 adds its e_j in order of j; then mr_sum16
//     a    = sum over j ascending, by fma from 0, of e_j * v_j
//   segments are merged left to right into (M, L, A), which begins as that of the first segment:
//     M' = max(M, m);  f = mr_exp(M - M');  g = mr_exp(m - M')
//     L' = fma(L, f, l * g);  A' = fma(A, f, a * g)
//   out = A * mr_recip(L)
// Where keys are centered, a segment's keys lack `mean`; m, once the e_j are known, is increased by
//     sum of (q * scale) * mean: lane i adds channels i, i + 16, ... by fma; mr_sum16
// SOFT_CAP: each s_j becomes mr_capped(s_j); with centered keys, that sum is added to s_j before.
// WINDOW: segments stay where they are. Keys that are not seen have e_j = 0. Segments without a key
// that is seen are skipped, so the first segment merged is the first that has one.
// SINKS, after the last segment: M' and f as above with m = sinks[head], g likewise;
//     L' = fma(L, f, g); out = A * (f * mr_recip(L'))
//
// Plain numbers are read as they are. Packed keys and values (kv/codec.cl) are codes; c is the
// number that a code represents, without scale, bias or norm:
//     rotated keys    q' = H (signs * (q * scale)) / HEAD_DIM;  s_j = (sum of q' * c) * norm_j
//     affine keys     by groups, ascending, from 0:
//                     s_j = fma(sum of q * c, scale_j, fma(sum of q, bias_j, s_j))
//     rotated values  w_j = e_j * norm_j; a = sum of w_j * c; out as above, then signs * (H out) /
//                     HEAD_DIM
//     affine values   w_j = e_j * scale_j; a = sum of w_j * c, which begins not with 0 but with the
//                     sum of e_j * bias_j: lane j % 16 by fma, then mr_sum16
// where a group's sum of q is: lane i adds channels i, i + 16, ...; mr_sum16.
//
// Where a side's INTEGERS is 1 (--math fast), its products and their sums are exact integers:
//     short(x, top) = nearest even of x * (32767 * mr_recip(top)), clamped to +-32767, where `top`
//                     is the largest magnitude of the numbers x; unit(top) = top / 32767; tops
//                     below 1e-37 give zeros and a unit of 0
//     b             = for affine codecs the code; for rotated ones LEVEL_BYTES[code] - 128, where
//                     STEP * b is about the level
//     queries       n = short(q, t) over the whole head, q' for rotated keys; u = unit(t)
//     rotated keys    s_j = ((float)(sum of n * b) * (u * STEP)) * norm_j
//     affine keys     s_j as above, with (float)(sum of n * code) * u for the sum of q * c, and
//                     u * (float)(sum of n) for the sum of q
//     values        n_j = short(w_j, t) over the segment, for each of a value's scales; u = unit(t)
//     rotated values  a = (float)(sum of n_j * b) * (u * STEP)
//     affine values   a = fma((float)(sum of n_j * code), u, sum of e_j * bias_j)
//
// Plain form: one group of ITEMS work-items per head and token, groups (HEADS, tokens). A work-item
// takes some of a segment's keys, and then some of the channels. Loops are unrolled so that many
// loads are under way while a sum waits for itself.
// Limit: the chains of sums, which a few tokens leave alone on the device; then memory, which each
// query head reads anew. This form serves as the reference.
#include "attention/shape.cl"
#include "attention/terms.cl"
#include "attention/work.h"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"
#include "step/table.cl"

#ifndef ITEMS
#define ITEMS ATTENTION_ITEMS
#endif
#define OWN_CHANNELS ((VALUE_DIM + ITEMS - 1) / ITEMS)

// Computes H x with all work-items, by the sums and differences of mr_hadamard (planes.cl).
MR_GROUP_INLINE void mr_hadamard_local(__local float* x, uint item) {
  for (uint h = 1; h < HEAD_DIM; h *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < HEAD_DIM / 2; i += ITEMS) {
      const uint at = i / h * 2 * h + i % h;
      const float a = x[at], b = x[at + h];
      x[at] = a + b;
      x[at + h] = a - b;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

static inline float mr_signed(float x, __constant const uint* words, uint d) {
  return (words[d / 32] >> (d % 32) & 1) != 0 ? -x : x;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void attention(__global const float* qkv, __global const float* means,
               __global const float* sinks, __global const uchar* kv, __global const uint* step,
               __global float* out, uint positions, uint tables, uint qkv_stride, uint out_stride,
               float scale) {
  __local float q[HEAD_DIM], e[SEGMENT_TOKENS], fold[ITEMS], sums[16];
  __local uint pages[SEGMENT_TOKENS / PAGE_TOKENS];  // of the segment
#if VALUE_KIND == KV_AFFINE
  __local float begin[16 * VALUE_SETS];
#endif
#if VALUE_INTEGERS
  __local float tops[VALUE_SETS];
#endif
  const uint item = (uint)get_local_id(0);
  const uint head = (uint)get_group_id(0), token = (uint)get_group_id(1), kv_head = head / GROUP;
  const uint position = step[positions + token];
  __global const uint* table = mr_page_table(step, tables, token);
  __global const float* query = qkv + (size_t)token * qkv_stride + head * HEAD_DIM;
  for (uint d = item; d < HEAD_DIM; d += ITEMS) {
    q[d] = query[d] * scale;
#if KEY_KIND == KV_ROTATED
    q[d] = mr_signed(q[d], mr_signs_key, d);
#endif
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#if KEY_KIND == KV_ROTATED
  mr_hadamard_local(q, item);
  for (uint d = item; d < HEAD_DIM; d += ITEMS) q[d] = q[d] * (1.0f / HEAD_DIM);
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  float unit = 0.0f;
#if KEY_INTEGERS
  int size = 0;
  for (uint d = 0; d < HEAD_DIM; ++d) size = max(size, mr_size(q[d]));
  barrier(CLK_LOCAL_MEM_FENCE);
  const float inverse_unit = mr_short_inverse(size);
  for (uint d = item; d < HEAD_DIM; d += ITEMS) q[d] = as_float(mr_short_code(q[d], inverse_unit));
  barrier(CLK_LOCAL_MEM_FENCE);
  unit = mr_short_unit(size);
#if KEY_KIND == KV_ROTATED
  unit = unit * KEY_STEP;
#else
  if (item < KEY_SETS) {
    int sum = 0;
    for (uint c = 0; c < KEY_GROUP; ++c) sum += as_int(q[item * KEY_GROUP + c]);
    sums[item] = unit * (float)sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
#elif KEY_KIND == KV_AFFINE
  if (item < KEY_SETS) {
    __local const float* channels = q + item * KEY_GROUP;
    float16 sum = vload16(0, channels);
    for (uint c = 1; c < KEY_GROUP / 16; ++c) sum = sum + vload16(c, channels);
    sums[item] = mr_sum16(sum);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  float total[OWN_CHANNELS], top = 0.0f, mass = 0.0f;
  const uint seen = mr_first_seen(position), begins = seen / SEGMENT_TOKENS;
  for (uint segment = begins; segment <= position / SEGMENT_TOKENS; ++segment) {
    const uint skipped = mr_skipped(position, segment);
    const uint start = segment * SEGMENT_TOKENS + skipped;
    const uint count = min(position + 1 - start, SEGMENT_TOKENS - skipped);
    if (item * PAGE_TOKENS < count) pages[item] = table[start / PAGE_TOKENS + item];
    barrier(CLK_LOCAL_MEM_FENCE);
#if KEY_CENTERED
    float16 products = (float16)(0.0f);
    __global const float* mean = mr_means_at(means, start) + kv_head * HEAD_DIM;
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) {
      products = fma(vload16(c, query) * scale, vload16(c, mean), products);
    }
    const float lacking = mr_sum16(products);
#endif
    float own = -INFINITY;
    for (uint j = item; j < count; j += ITEMS) {
      const uint at = start + j;
      float s = mr_score(q, sums, unit, kv, pages[j / PAGE_TOKENS], kv_head, j % PAGE_TOKENS);
#if MEAN_IN_SCORES
      s = s + lacking;
#endif
#ifdef SOFT_CAP
      s = mr_capped(s);
#endif
      if (at < seen) s = -INFINITY;
      e[j] = s;
      own = fmax(own, s);
    }
    fold[item] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint width = ITEMS / 2; width > 0; width /= 2) {
      if (item < width) fold[item] = fmax(fold[item], fold[item + width]);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    float m = fold[0];
    for (uint j = item; j < count; j += ITEMS) e[j] = mr_exp(e[j] - m);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < 16) {
      float lane = 0.0f;
      for (uint j = item; j < count; j += 16) lane = lane + e[j];
      fold[item] = lane;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float l = mr_sum16(vload16(0, fold));
#if VALUE_KIND == KV_AFFINE
    for (uint i = item; i < 16 * VALUE_SETS; i += ITEMS) {
      const uint g = i / 16;
      float lane = 0.0f;
      for (uint j = i % 16; j < count; j += 16) {
        const uint page = pages[j / PAGE_TOKENS];
        lane = fma(e[j],
                   mr_parameter(kv + mr_value_parameters_at(page, kv_head), 2 * g + 1,
                                j % PAGE_TOKENS),
                   lane);
      }
      begin[i] = lane;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if VALUE_INTEGERS
    for (uint set = 0; set < VALUE_SETS; ++set) {
      int own_size = 0;
      for (uint j = item; j < count; j += ITEMS) {
        const uint page = pages[j / PAGE_TOKENS];
        const float w = e[j] * mr_parameter(kv + mr_value_parameters_at(page, kv_head),
                                            VALUE_KIND == KV_ROTATED ? 0 : 2 * set,
                                            j % PAGE_TOKENS);
        own_size = max(own_size, mr_size(w));
      }
      barrier(CLK_LOCAL_MEM_FENCE);  // all work-items have read fold
      fold[item] = as_float(own_size);
      barrier(CLK_LOCAL_MEM_FENCE);
      int all = 0;
      for (uint i = 0; i < ITEMS; ++i) all = max(all, as_int(fold[i]));
      if (item == 0) tops[set] = as_float(all);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if KEY_CENTERED && !MEAN_IN_SCORES
    m = m + lacking;
#endif
    const float merged = segment == begins ? m : fmax(top, m);
    const float f = mr_exp(top - merged), g = mr_exp(m - merged);
    for (uint i = 0; i < OWN_CHANNELS; ++i) {
      const uint d = item + i * ITEMS;
      if (d >= VALUE_DIM) break;
#if VALUE_KIND == KV_AFFINE
      float a = mr_sum16(vload16(d / VALUE_GROUP, begin));
#else
      float a = 0.0f;
#endif
#if VALUE_INTEGERS
      const int largest = as_int(tops[d / VALUE_GROUP]);
      const float inverse_weight = mr_short_inverse(largest);
      const int products = mr_add_values(0, e, inverse_weight, kv, pages, kv_head, count, d);
#if VALUE_KIND == KV_ROTATED
      a = (float)products * (mr_short_unit(largest) * VALUE_STEP);
#else
      a = fma((float)products, mr_short_unit(largest), a);
#endif
#else
      a = mr_add_values(a, e, 0.0f, kv, pages, kv_head, count, d);
#endif
      total[i] = segment == begins ? a : fma(total[i], f, a * g);
    }
    mass = segment == begins ? l : fma(mass, f, l * g);
    top = merged;
    barrier(CLK_LOCAL_MEM_FENCE);  // all work-items have read e, fold and pages
  }
  out += (size_t)token * out_stride + head * VALUE_DIM;
#if SINKS
  const float merged = fmax(top, sinks[head]), f = mr_exp(top - merged);
  const float inverse = f * mr_recip(fma(mass, f, mr_exp(sinks[head] - merged)));
#else
  const float inverse = mr_recip(mass);
#endif
  for (uint i = 0; i < OWN_CHANNELS; ++i) {
    const uint d = item + i * ITEMS;
    if (d < VALUE_DIM) q[d] = total[i] * inverse;
  }
#if VALUE_KIND == KV_ROTATED
  mr_hadamard_local(q, item);
  for (uint d = item; d < HEAD_DIM; d += ITEMS) {
    q[d] = mr_signed(q[d], mr_signs_value, d) * (1.0f / HEAD_DIM);
  }
#endif
  for (uint d = item; d < VALUE_DIM; d += ITEMS) out[d] = q[d];
}
