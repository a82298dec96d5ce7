#pragma once
// What attention on the matrix unit (nvidia.cl) does for a step whose sequences have one token
// each, so that rotation and store need no launch of their own: a group rotates the queries that it
// reads, and the group of the last segment stores the token's key and value before it reads their
// block. No other group of the step reads them. The bits are those of rope/half_nvidia.cl.
//
// Defines besides those of nvidia.cl: ROPE_DIM, ROPE_HALVES (rope/pairs.cl).
#include "attention/blocks.cl"
#include "attention/heads.cl"
#include "attention/warp.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "rope/pairs.cl"
#include "rope/turn.cl"
#include "step/records.h"

// Whether a program can do so. It does where the launch has a table of turns.
#if SHARED_ROWS && KEY_KIND == KV_PLAIN && STORES && ROPE_DIM > 0 && ROPE_DIM % 8 == 0
#define OWN_TOKEN 1
#else
#define OWN_TOKEN 0
#define OWN_QUERY_VECTORS 0
#endif

#if OWN_TOKEN
// Neighbours d and d + 1 of a head's channels, d even, with what their rotation needs: they are
// loaded long before they are used.
typedef struct {
#if ROPE_HALVES
  float2 x, other;  // of the first half of the channels that rotate, and of the second
  float4 turn;
#else
  float2 x, turn;
#endif
} Pair;

MR_GROUP_INLINE Pair mr_pair(__global const float* head, __global const float2* turns, uint d) {
  Pair out;
  const int rotates = ROPE_DIM == HEAD_DIM || d < ROPE_DIM;
#if ROPE_HALVES
  const uint first = rotates && d >= ROPE_DIM / 2 ? d - ROPE_DIM / 2 : d;
  out.x = *(__global const float2*)(head + first);
  out.other = *(__global const float2*)(head + (rotates ? first + ROPE_DIM / 2 : d));
  out.turn = *(__global const float4*)(turns + (rotates ? first : 0));
#else
  out.x = *(__global const float2*)(head + d);
  out.turn = turns[rotates ? d / 2 : 0];
#endif
  return out;
}
// The two as they are.
MR_GROUP_INLINE float2 mr_plain(const Pair* pair, uint d) {
#if ROPE_HALVES
  if (d >= ROPE_DIM / 2 && d < ROPE_DIM) return pair->other;
#endif
  return pair->x;
}
// The two after the rotation.
MR_GROUP_INLINE float2 mr_turned(const Pair* pair, uint d) {
  if (ROPE_DIM < HEAD_DIM && d >= ROPE_DIM) return pair->x;
#if ROPE_HALVES
  const float2 a = mr_rotate(pair->x.x, pair->other.x, pair->turn.xy);
  const float2 b = mr_rotate(pair->x.y, pair->other.y, pair->turn.zw);
  return d < ROPE_DIM / 2 ? (float2)(a.x, b.x) : (float2)(a.y, b.y);
#else
  return mr_rotate(pair->x.x, pair->x.y, pair->turn);
#endif
}

// What a work-item has of the token: pairs of the queries that its group reads, and of the key and
// the value of their KV head, whose pairs are counted in this order.
#define QUERY_PAIRS (GROUP * (HEAD_DIM / 2))
#define OWN_QUERIES ((QUERY_PAIRS + GROUP_ITEMS - 1) / GROUP_ITEMS)
#define OWN_STORED ((HEAD_DIM + GROUP_ITEMS - 1) / GROUP_ITEMS)
typedef struct {
  Pair queries[OWN_QUERIES], stored[OWN_STORED];
} OwnToken;

// Loads them of the token's row of qkv, for set `set` of heads and KV head g.
MR_GROUP_INLINE void mr_load_own(OwnToken* own, __global const float* row,
                                 __global const float2* turns, uint set, uint g, uint item) {
  MR_EACH(n, OWN_QUERIES) {
    const uint i = n * GROUP_ITEMS + item;
    if (QUERY_PAIRS % GROUP_ITEMS == 0 || i < QUERY_PAIRS) {
      own->queries[n] = mr_pair(row + (set * GROUP + i / (HEAD_DIM / 2)) * HEAD_DIM, turns,
                                i % (HEAD_DIM / 2) * 2);
    }
  }
  MR_EACH(n, OWN_STORED) {
    const uint i = n * GROUP_ITEMS + item;
    if (HEAD_DIM % GROUP_ITEMS == 0 || i < HEAD_DIM) {
      own->stored[n] = mr_pair(row + (i < HEAD_DIM / 2 ? K_ROW : V_ROW) + g * HEAD_DIM, turns,
                               i % (HEAD_DIM / 2) * 2);
    }
  }
}

// The queries rotated, times scale, as halves in local memory, two a word, from an even channel d
// on. Rows never meet in a bank.
#define OWN_QUERY_STRIDE (HEAD_DIM / 2 + 4)
#define OWN_QUERY_AT(row, d) ((row)*OWN_QUERY_STRIDE + (d) / 2)
#define OWN_QUERY_VECTORS (GROUP * OWN_QUERY_STRIDE / 4)

MR_GROUP_INLINE void mr_turn_own(__local uint* turned, const OwnToken* own, float scale,
                                 uint item) {
  MR_EACH(n, OWN_QUERIES) {
    const uint i = n * GROUP_ITEMS + item, d = i % (HEAD_DIM / 2) * 2;
    if (QUERY_PAIRS % GROUP_ITEMS == 0 || i < QUERY_PAIRS) {
      const float2 x = mr_turned(&own->queries[n], d);
      turned[OWN_QUERY_AT(i / (HEAD_DIM / 2), d)] = mr_halves(x.x * scale, x.y * scale);
    }
  }
}

// Stores the key and the value as halves. The group reads them after a barrier, which on these GPUs
// orders global memory, too. (A fence here would wait for the copies that are under way.)
MR_GROUP_INLINE void mr_store_own(__global uchar* kv, const OwnToken* own, uint page, uint slot,
                                  uint g, uint item) {
  __global ushort* key = (__global ushort*)(kv + mr_keys_at(page, g));
  __global uint* value = (__global uint*)(kv + mr_values_at(page, g)) + slot * (HEAD_DIM / 2);
  MR_EACH(n, OWN_STORED) {
    const uint i = n * GROUP_ITEMS + item, d = i % (HEAD_DIM / 2) * 2;
    if (HEAD_DIM % GROUP_ITEMS == 0 || i < HEAD_DIM) {
      const int is_key = i < HEAD_DIM / 2;
      const float2 x = is_key ? mr_turned(&own->stored[n], d) : mr_plain(&own->stored[n], d);
      const uint bits = mr_halves(mr_kept(x.x), mr_kept(x.y));
      if (is_key) {
        key[d * PAGE_TOKENS + slot] = (ushort)bits;
        key[(d + 1) * PAGE_TOKENS + slot] = (ushort)(bits >> 16);
      } else {
        value[d / 2] = bits;
      }
    }
  }
#if !MATRIX_UNIT
  mem_fence(CLK_GLOBAL_MEM_FENCE);
#endif
}
#endif
