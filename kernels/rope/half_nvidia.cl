// rope_kv (rope/generic.cl has arguments and contract, and the same bits of queries and pages) for
// keys and values of plain halves, for devices of wide memory. Rotated keys are left in the pages
// alone.
//
//   launch groups (QUERY_GROUPS and, if the layer stores, VALUE_GROUPS + KV_HEADS, tokens) of
//          ROW_ITEMS work-items
//
// A work-item rotates four pairs of a query, or stores four channels of a value. The key of a KV
// head is stored by the group of the first token that a step brings to a page, with those that
// follow: of a channel the page's positions stand side by side, so that whole lines are written.
// Limit: memory.
#include "attention/heads.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "rope/pairs.cl"
#include "rope/turn.cl"
#include "step/table.cl"

#define QUERY_VECTORS (HEADS * (ROPE_DIM / 8))
#define QUERY_GROUPS ((QUERY_VECTORS + ROW_ITEMS - 1) / ROW_ITEMS)
#define VALUE_VECTORS (KV_HEADS * (HEAD_DIM / 4))
#define VALUE_GROUPS ((VALUE_VECTORS + ROW_ITEMS - 1) / ROW_ITEMS)
#define KEY_STRIDE (PAGE_TOKENS + 2)  // of a channel, so that work-items never meet in a bank

// Rotates four pairs of a query, from pair 4 * v on.
static inline void mr_rotate_query(__global float* head, __global const float2* turns, uint v) {
  __global const float4* two = (__global const float4*)(turns + 4 * v);
  const float4 first = two[0], second = two[1];
#if ROPE_HALVES
  __global float4* a = (__global float4*)(head + 4 * v);
  __global float4* b = (__global float4*)(head + ROPE_DIM / 2 + 4 * v);
  const float4 x = *a, y = *b;
  const float2 r0 = mr_rotate(x.x, y.x, first.xy), r1 = mr_rotate(x.y, y.y, first.zw);
  const float2 r2 = mr_rotate(x.z, y.z, second.xy), r3 = mr_rotate(x.w, y.w, second.zw);
  *a = (float4)(r0.x, r1.x, r2.x, r3.x);
  *b = (float4)(r0.y, r1.y, r2.y, r3.y);
#else
  __global float4* at = (__global float4*)(head + 8 * v);
  const float4 x = at[0], y = at[1];
  at[0] = (float4)(mr_rotate(x.x, x.y, first.xy), mr_rotate(x.z, x.w, first.zw));
  at[1] = (float4)(mr_rotate(y.x, y.y, second.xy), mr_rotate(y.z, y.w, second.zw));
#endif
}

// How many tokens from `token` on are consecutive positions of one page; 0 if the token before is,
// too.
static inline uint mr_page_run(__global const uint* step, uint positions, uint tables, uint token) {
  const uint tokens = tables - positions, position = step[positions + token];
  const uint table = step[tables + token], left = PAGE_TOKENS - position % PAGE_TOKENS;
  if (token > 0 && left < PAGE_TOKENS && step[tables + token - 1] == table &&
      step[positions + token - 1] + 1 == position) {
    return 0;
  }
  uint run = 1;
  while (run < left && token + run < tokens && step[tables + token + run] == table &&
         step[positions + token + run] == position + run) {
    ++run;
  }
  return run;
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void rope_kv(__global float* qkv, __global const float2* rope, __global const float* means,
             __global uchar* kv, __global const uint* step, uint positions, uint tables,
             uint qkv_stride) {
  __local ushort keys[HEAD_DIM * KEY_STRIDE];  // of a page
  const uint group = (uint)get_group_id(0), token = (uint)get_group_id(1);
  const uint item = (uint)get_local_id(0), position = step[positions + token];
  __global float* row = qkv + (size_t)token * qkv_stride;
  if (group < QUERY_GROUPS) {
    const uint i = group * ROW_ITEMS + item, head = i / (ROPE_DIM / 8);
    if (i < QUERY_VECTORS) {
      mr_rotate_query(row + head * HEAD_DIM, rope + (size_t)position * (ROPE_DIM / 2),
                      i % (ROPE_DIM / 8));
    }
    return;
  }
  const uint page = mr_own_page(step, positions, tables, token), slot = position % PAGE_TOKENS;
  if (group < QUERY_GROUPS + VALUE_GROUPS) {
    const uint i = (group - QUERY_GROUPS) * ROW_ITEMS + item, g = i / (HEAD_DIM / 4);
    if (i < VALUE_VECTORS) {
      const float4 x = *(__global const float4*)(row + V_ROW + 4 * i);
      __global uint2* to = (__global uint2*)(kv + mr_values_at(page, g));
      to[slot * (HEAD_DIM / 4) + i % (HEAD_DIM / 4)] =
          (uint2)(mr_halves(mr_kept(x.x), mr_kept(x.y)), mr_halves(mr_kept(x.z), mr_kept(x.w)));
    }
    return;
  }
  const uint run = mr_page_run(step, positions, tables, token);
  if (run == 0) return;
  const uint g = group - QUERY_GROUPS - VALUE_GROUPS;
  for (uint i = item; i < run * (HEAD_DIM / 2); i += ROW_ITEMS) {
    const uint r = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
    __global const float* x = row + (size_t)r * qkv_stride + K_ROW + g * HEAD_DIM;
    const int rotates = pair < ROPE_DIM / 2;
    const uint a = ROPE_HALVES && rotates ? pair : 2 * pair;
    const uint b = ROPE_HALVES && rotates ? pair + ROPE_DIM / 2 : 2 * pair + 1;
    float2 turned = (float2)(x[a], x[b]);
    if (rotates) {
      turned = mr_rotate(x[a], x[b], rope[(size_t)(position + r) * (ROPE_DIM / 2) + pair]);
    }
    const uint bits = mr_halves(mr_kept(turned.x), mr_kept(turned.y));
    keys[a * KEY_STRIDE + slot + r] = (ushort)bits;
    keys[b * KEY_STRIDE + slot + r] = (ushort)(bits >> 16);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  __global ushort* to = (__global ushort*)(kv + mr_keys_at(page, g));
  if (run == 1) {
    for (uint d = item; d < HEAD_DIM; d += ROW_ITEMS) {
      to[d * PAGE_TOKENS + slot] = keys[d * KEY_STRIDE + slot];
    }
    return;
  }
  for (uint i = item; i < HEAD_DIM * PAGE_TOKENS / 2; i += ROW_ITEMS) {
    const uint d = i / (PAGE_TOKENS / 2), at = i % (PAGE_TOKENS / 2) * 2;
    __local const ushort* from = keys + d * KEY_STRIDE + at;
    const int has_first = at >= slot && at < slot + run;
    const int has_second = at + 1 >= slot && at + 1 < slot + run;
    // Three conditions of their own: PoCL mistakes a chain of them for small heads.
    if (has_first && has_second) ((__global uint*)to)[i] = from[0] | (uint)from[1] << 16;
    if (has_first && !has_second) to[2 * i] = from[0];
    if (!has_first && has_second) to[2 * i + 1] = from[1];
  }
}
