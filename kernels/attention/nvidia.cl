// Causal attention of NVIDIA GPUs over keys and values that are plain halves. Contract and bits:
// generic.cl; other codecs, and values in keys, run there.
//
//   qkv, sinks, kv, step   as for generic.cl
//   out     float [tokens][out_stride], or null
//   codes   rows of code_stride words of halves of out (quantize/code_block.h), or null
//   launch  one group of ITEMS work-items per token and set of HEADS_AT_ONCE query heads of a KV
//           head, groups (KV_HEADS * HEAD_PARTS, tokens)
//
// Keys, then values, of a segment come to local memory in chunks of CHUNK_PAGES pages, each while
// the one before is used: a page of a KV head is contiguous, and all query heads of the group read
// it there. A work-item computes the scores of a key, then the sums of a channel.
// Limit: many tokens: memory, or for many query heads the reads of local memory; few: the time of
// the chains of sums, 2 * HEAD_DIM + SEGMENT_TOKENS steps a segment.
//
// Defines besides those of generic.cl: HEADS_AT_ONCE, which divides GROUP.
#include "attention/shape.cl"
#include "attention/work.h"
#include "common/halves.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"
#include "quantize/code_block.h"
#include "step/table.cl"

#ifndef ITEMS
#define ITEMS ATTENTION_ITEMS
#endif
#ifndef HEADS_AT_ONCE
#define HEADS_AT_ONCE 1
#endif
#define HEAD_PARTS (GROUP / HEADS_AT_ONCE)
#define OWN_CHANNELS ((HEAD_DIM + ITEMS - 1) / ITEMS)
#define CHUNK_PAGES (1024 / HEAD_DIM)  // 32 KiB
#define CHUNK_TOKENS (CHUNK_PAGES * PAGE_TOKENS)
#define PAGE_VECTORS (2 * HEAD_DIM)  // of 16 bytes: the keys or the values of a page and KV head
#define CHUNK_VECTORS (CHUNK_PAGES * PAGE_VECTORS)

// Begins to copy the pages of a chunk, as far as they exist; `at` is the place of a page's keys or
// values of the KV head.
MR_GROUP_INLINE void mr_copy_chunk(__local uint4* to, __global const uchar* kv,
                                   __local const uint* pages, uint page_count, uint chunk,
                                   uint at, uint item) {
  const uint first = chunk * CHUNK_PAGES;
  if (first < page_count) {
    const uint vectors = min((uint)CHUNK_PAGES, page_count - first) * PAGE_VECTORS;
    for (uint i = item; i < vectors; i += ITEMS) {
      const size_t page = (size_t)pages[first + i / PAGE_VECTORS] * PAGE_BYTES;
      mr_copy16(to + i, (__global const uint4*)(kv + page + at) + i % PAGE_VECTORS);
    }
  }
  MR_COPIES_BEGUN();
}

// Writes the scores of a chunk's keys for all heads, s[key][head].
MR_GROUP_INLINE void mr_chunk_scores(__local float* s, __local const float* q,
                                     __local const ushort* keys, uint count, uint position,
                                     uint seen, uint item) {
  for (uint j = item; j < count; j += ITEMS) {
    __local const ushort* key = keys + j / PAGE_TOKENS * (PAGE_TOKENS * HEAD_DIM) + j % PAGE_TOKENS;
    float own[HEADS_AT_ONCE];
    MR_EACH(h, HEADS_AT_ONCE) own[h] = 0.0f;
    _Pragma("unroll 16") for (uint d = 0; d < HEAD_DIM; ++d) {
      const float k = mr_from_half(key[d * PAGE_TOKENS]);
      MR_EACH(h, HEADS_AT_ONCE) own[h] = fma(q[d * HEADS_AT_ONCE + h], k, own[h]);
    }
    MR_EACH(h, HEADS_AT_ONCE) {
#ifdef SOFT_CAP
      own[h] = mr_capped(own[h]);
#endif
      s[j * HEADS_AT_ONCE + h] = position + j < seen ? -INFINITY : own[h];
    }
  }
}

// Replaces the scores of `count` keys by e_j, and finds each head's m and l. `fold` has
// ITEMS * HEADS_AT_ONCE floats.
MR_GROUP_INLINE void mr_segment_weights(__local float* s, __local float* fold, uint count,
                                        float* m, float* l, uint item) {
  float own[HEADS_AT_ONCE];
  MR_EACH(h, HEADS_AT_ONCE) own[h] = -INFINITY;
  for (uint j = item; j < count; j += ITEMS) {
    MR_EACH(h, HEADS_AT_ONCE) own[h] = fmax(own[h], s[j * HEADS_AT_ONCE + h]);
  }
  MR_EACH(h, HEADS_AT_ONCE) fold[item * HEADS_AT_ONCE + h] = own[h];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint width = ITEMS / 2; width > 0; width /= 2) {
    for (uint i = item; i < width * HEADS_AT_ONCE; i += ITEMS) {
      fold[i] = fmax(fold[i], fold[i + width * HEADS_AT_ONCE]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  MR_EACH(h, HEADS_AT_ONCE) m[h] = fold[h];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint j = item; j < count; j += ITEMS) {
    MR_EACH(h, HEADS_AT_ONCE) {
      s[j * HEADS_AT_ONCE + h] = mr_exp(s[j * HEADS_AT_ONCE + h] - m[h]);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < 16 * HEADS_AT_ONCE; i += ITEMS) {
    float lane = 0.0f;
    for (uint j = i % 16; j < count; j += 16) lane = lane + s[j * HEADS_AT_ONCE + i / 16];
    fold[i] = lane;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  MR_EACH(h, HEADS_AT_ONCE) l[h] = mr_sum16(vload16(h, fold));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void attention(__global const float* qkv, __global const float* sinks, __global const uchar* kv,
               __global const uint* step, __global float* out, __global ushort* codes,
               uint positions, uint tables, uint qkv_stride, uint out_stride, uint code_stride,
               float scale) {
  __local uint4 chunks[2 * CHUNK_VECTORS];
  __local float q[HEAD_DIM * HEADS_AT_ONCE], s[SEGMENT_TOKENS * HEADS_AT_ONCE];
  __local float fold[ITEMS * HEADS_AT_ONCE];
  __local uint pages[SEGMENT_TOKENS / PAGE_TOKENS];
  const uint item = (uint)get_local_id(0), token = (uint)get_group_id(1);
  const uint kv_head = (uint)get_group_id(0) / HEAD_PARTS;
  const uint first_head = (uint)get_group_id(0) * HEADS_AT_ONCE;
  const uint position = step[positions + token];
  const uint keys_at = (uint)mr_keys_at(0, kv_head), values_at = (uint)mr_values_at(0, kv_head);
  __global const uint* table = mr_page_table(step, tables, token);
  __global const float* queries = qkv + (size_t)token * qkv_stride + first_head * HEAD_DIM;
  for (uint i = item; i < HEAD_DIM * HEADS_AT_ONCE; i += ITEMS) {
    q[i % HEAD_DIM * HEADS_AT_ONCE + i / HEAD_DIM] = queries[i] * scale;
  }
  float total[HEADS_AT_ONCE][OWN_CHANNELS], top[HEADS_AT_ONCE], mass[HEADS_AT_ONCE];
  const uint seen = mr_first_seen(position), begins = seen / SEGMENT_TOKENS;
  for (uint segment = begins; segment <= position / SEGMENT_TOKENS; ++segment) {
    const uint skipped = mr_skipped(position, segment);
    const uint start = segment * SEGMENT_TOKENS + skipped;
    const uint count = min(position + 1 - start, SEGMENT_TOKENS - skipped);
    const uint page_count = (count + PAGE_TOKENS - 1) / PAGE_TOKENS;
    const uint chunk_count = (count + CHUNK_TOKENS - 1) / CHUNK_TOKENS;
    if (item < page_count) pages[item] = table[start / PAGE_TOKENS + item];
    barrier(CLK_LOCAL_MEM_FENCE);
    mr_copy_chunk(chunks, kv, pages, page_count, 0, keys_at, item);
    // Chunk i of keys and values together is in one half of `chunks`, the next in the other.
    for (uint i = 0; i < chunk_count; ++i) {
      const uint last = i + 1 == chunk_count;
      mr_copy_chunk(chunks + (i + 1) % 2 * CHUNK_VECTORS, kv, pages, page_count, last ? 0 : i + 1,
                    last ? values_at : keys_at, item);
      MR_WAIT_FOR_COPIES(1);
      barrier(CLK_LOCAL_MEM_FENCE);
      const uint first = i * CHUNK_TOKENS;
      mr_chunk_scores(s + first * HEADS_AT_ONCE, q,
                      (__local const ushort*)(chunks + i % 2 * CHUNK_VECTORS),
                      min(count - first, (uint)CHUNK_TOKENS), start + first, seen, item);
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    float m[HEADS_AT_ONCE], l[HEADS_AT_ONCE], a[HEADS_AT_ONCE][OWN_CHANNELS];
    mr_segment_weights(s, fold, count, m, l, item);
    MR_EACH(h, HEADS_AT_ONCE) MR_EACH(c, OWN_CHANNELS) a[h][c] = 0.0f;
    for (uint i = 0; i < chunk_count; ++i) {
      const uint at = chunk_count + i, first = i * CHUNK_TOKENS;
      mr_copy_chunk(chunks + (at + 1) % 2 * CHUNK_VECTORS, kv, pages, page_count, i + 1, values_at,
                    item);
      MR_WAIT_FOR_COPIES(1);
      barrier(CLK_LOCAL_MEM_FENCE);
      __local const ushort* values = (__local const ushort*)(chunks + at % 2 * CHUNK_VECTORS);
      __local const float* e = s + first * HEADS_AT_ONCE;
      const uint here = min(count - first, (uint)CHUNK_TOKENS);
      MR_EACH(c, OWN_CHANNELS) {
        const uint d = item + c * ITEMS;
        if (HEAD_DIM % ITEMS == 0 || d < HEAD_DIM) {
          _Pragma("unroll 8") for (uint j = 0; j < here; ++j) {
            const float v = mr_from_half(values[j * HEAD_DIM + d]);
            MR_EACH(h, HEADS_AT_ONCE) a[h][c] = fma(e[j * HEADS_AT_ONCE + h], v, a[h][c]);
          }
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    MR_EACH(h, HEADS_AT_ONCE) {
      const float merged = segment == begins ? m[h] : fmax(top[h], m[h]);
      const float f = mr_exp(top[h] - merged), g = mr_exp(m[h] - merged);
      MR_EACH(c, OWN_CHANNELS) {
        total[h][c] = segment == begins ? a[h][c] : fma(total[h][c], f, a[h][c] * g);
      }
      mass[h] = segment == begins ? l[h] : fma(mass[h], f, l[h] * g);
      top[h] = merged;
    }
  }
  MR_EACH(h, HEADS_AT_ONCE) {
    const uint head = first_head + h;
#if SINKS
    const float merged = fmax(top[h], sinks[head]), f = mr_exp(top[h] - merged);
    const float inverse = f * mr_recip(fma(mass[h], f, mr_exp(sinks[head] - merged)));
#else
    const float inverse = mr_recip(mass[h]);
#endif
    MR_EACH(c, OWN_CHANNELS) {
      const uint d = item + c * ITEMS;
      if (HEAD_DIM % ITEMS == 0 || d < HEAD_DIM) {
        const float value = total[h][c] * inverse;
        if (out != 0) out[(size_t)token * out_stride + head * HEAD_DIM + d] = value;
        if (codes != 0) {
          const uint channel = head * HEAD_DIM + d;
          const size_t vector = H_VECTOR_AT((size_t)token, channel / 8, code_stride / 4);
          codes[vector * 8 + channel % 8] = (ushort)mr_halves(value * H_SCALE, 0.0f);
        }
      }
    }
  }
}
