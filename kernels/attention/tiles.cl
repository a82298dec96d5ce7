// Computes causal attention over pages on CPUs, tile by tile. Numeric contract: generic.cl. A
// program has it once for each number of queries: every name that depends on QUERIES ends in it,
// MR_Q(mr_attend) is mr_attend_8. The products of queries and keys and of weights and values are in
// plain.cl, packed.cl, and integer.cl for packed codes in --math fast.
//
// A tile is up to QUERIES consecutive tokens of one sequence with the heads of one set (heads.cl):
// ROWS = QUERIES * GROUP queries that share every load of a key or value vector. A unit of work is
// a run of consecutive segments of a tile:
//
//   scores  lanes are the 16 positions of a page: s[row] += q[row][d] * keys[d][16 positions]
//   values  lanes are 16 channels:                a[row] += e[row][j] * values[j][16 channels]
//
//   out     may be null
//   codes   may be null; int [tokens][code_stride], the numbers of `out` as quantized blocks
//           (quantize/code_block.h), for head dimensions that are whole blocks
//   step    the step table; `units` tells where the units are in it (step/records.h)
//   partial float [partial + segment][HEAD_SETS][RECORD_VECTORS * 16]: the results of a cut tile's
//           segments, which are counted from the first that the tile sees
//   next    uint, zero before: the next unit (times HEAD_SETS)
//   cuts    uint [.][HEAD_SETS] per cut tile, zero before and after
//   defines QUERIES: 1 for decoding rows, more for prefill
//
// The last unit of a cut tile to finish folds all the tile's segments, left to right. Which unit
// that is depends on time; the result does not. A unit rotates its queries itself. With QUERIES 1
// the unit with the last segment also writes the tile's key and value, before it reads them, so
// that a decoding step needs no other launch; with more tokens mr_store_tile (rope/tile.cl) has
// written them. Units of several sets of one KV head each write it, with the same bits.
//
// Rows past a tile's tokens repeat its last token and are dropped. A key after a row's position
// takes part with e = 0 exactly, which changes no sum. So does a key before a row's window that
// another row of the tile sees, or that shares a page with such a key. A row may begin with a
// segment of which it sees nothing, but not with two, as a tile is shorter than a segment. Values
// after the tile's last position are not read; keys are read to the end of their page, whatever it
// holds.
//
// While a page's keys are read, its values are prefetched. While its values are read, the keys that
// come next are: those of the next segment, or of the unit that the counter says will be next.
// Limit: memory for QUERIES 1, fp32 multiply-adds for more.
#include "attention/rows.cl"
#include "attention/shape.cl"
#include "attention/units.cl"
#include "common/cap.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "kv/vectors.cl"
#include "quantize/block.cl"
#include "rope/rotate.cl"
#include "step/table.cl"

#include "attention/plain.cl"
#include "attention/in_keys.cl"
#include "attention/packed.cl"
#include "attention/integer.cl"

// Writes the scores of all rows with `count` pages from `pages` on to e, and the largest of each
// lane to tops. With `masked`, row r sees the positions below limits[r] and, with WINDOW, from
// lows[r] on, counted from the first position of the first page. With MEAN_IN_SCORES, means[r] is
// the part of the score that centered keys lack.
static SCORES_TARGET void MR_Q(mr_scores)(const Unit* unit, const float* q,
                                          __global const uint* pages, uint count, int masked,
                                          const int* limits, const int* lows, const float* means,
                                          float* e, float16* tops) {
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (uint first = 0; first < count; first += PAGES_AT_ONCE) {
    float16 s[PAGES_AT_ONCE * ROWS];
    _Pragma("unroll") for (uint i = 0; i < PAGES_AT_ONCE * ROWS; ++i) s[i] = (float16)(0.0f);
    MR_Q(mr_dots)(unit, q, pages, first, count, s);
#ifdef SOFT_CAP
    for (uint i = 0; i < PAGES_AT_ONCE * ROWS; ++i) {
#if MEAN_IN_SCORES
      s[i] = s[i] + (float16)(means[i % ROWS]);
#endif
      s[i] = mr_capped16(s[i]);
    }
#endif
    if (masked) {
      _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
        const int16 at = lane + (int16)((int)(first + n) * PAGE_TOKENS);
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) s[n * ROWS + r] =
            select(s[n * ROWS + r], (float16)(-INFINITY), at >= (int16)(limits[r]));
#if WINDOW > 0
        _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) s[n * ROWS + r] =
            select(s[n * ROWS + r], (float16)(-INFINITY), at < (int16)(lows[r]));
#endif
      }
    }
    _Pragma("unroll") for (uint r = 0; r < ROWS; ++r) {
      _Pragma("unroll") for (uint n = 0; n < PAGES_AT_ONCE; ++n) {
        *(float16*)(e + r * E_STRIDE + (first + n) * PAGE_TOKENS) = s[n * ROWS + r];
        tops[r] = mr_larger16(tops[r], s[n * ROWS + r]);
      }
    }
  }
}

// Computes the record of one segment of the tile: m [ROWS], l [ROWS], a [ROWS][HEAD_DIM], where m
// and l each fill whole vectors.
static inline void MR_Q(mr_segment)(const Unit* unit, const float* q, const float* means, float* e,
                                    uint segment, const Ahead* ahead, float16* record) {
  const uint start = mr_start(unit, segment);
  const uint count = mr_count(unit, segment);
  const uint page_count = (count + PAGE_TOKENS - 1) / PAGE_TOKENS;
  __global const uint* pages = unit->table + start / PAGE_TOKENS;
  float16 tops[ROWS];
  int limits[ROWS];
#if WINDOW > 0
  int lows[ROWS];
#else
  const int* const lows = 0;
#endif
  for (uint r = 0; r < ROWS; ++r) {
    const uint position = unit->position + min(r / GROUP, unit->tokens - 1);
    tops[r] = (float16)(-INFINITY);
    limits[r] = (int)(position + 1 - start);
#if WINDOW > 0
    // mr_dots repeats the last page. If that is also the first page, the repeats hold keys before
    // the window, which only this limit hides.
    limits[r] = min(limits[r], (int)count);
    lows[r] = (int)(mr_first_seen(position) - start);
#endif
  }
  int masked = limits[0] < SEGMENT_TOKENS;
#if WINDOW > 0
  masked = masked || lows[ROWS - 1] > 0;
#endif
  MR_Q(mr_scores)(unit, q, pages, page_count, masked, limits, lows, means, e, tops);
  float* m = (float*)record;
  float* l = (float*)(record + ROW_VECTORS);
  for (uint r = 0; r < ROWS; ++r) m[r] = mr_max16(tops[r]);
  for (uint r = 0; r < ROWS; ++r) l[r] = mr_softmax(e + r * E_STRIDE, page_count, m[r]);
#if VALUE_KIND == KV_PLAIN
  for (uint block = 0; block < VALUE_BLOCKS; block += BLOCKS_AT_ONCE) {
    MR_Q(mr_values)(unit, e, pages, ahead, count, block, record + 2 * ROW_VECTORS);
  }
#else
#if VALUE_SETS > 1
  float16 weights[ROWS * E_STRIDE / 16];
  float* w = (float*)weights;
#else
  float* w = e;
#endif
  float begin[ROWS];
#if VALUE_INTEGERS
  int16 words[ROWS * WEIGHT_WORDS / 16];
  float units[ROWS];
  int first[ROWS];
#endif
  for (uint block = 0; block < CHANNEL_BLOCKS; block += BLOCKS_AT_ONCE) {
    if (block % SET_BLOCKS == 0) {
      MR_Q(mr_weigh)(unit, e, pages, ahead, count, block / SET_BLOCKS, w, begin);
#if VALUE_INTEGERS
      MR_Q(mr_pack_weights)(w, count, (int*)words, units, first);
#endif
    }
#if VALUE_INTEGERS
    MR_Q(mr_sum_values)(unit, (const int*)words, units, first, begin, pages, ahead, count, block,
                        record + 2 * ROW_VECTORS);
#else
    MR_Q(mr_sum_values)(unit, w, begin, pages, ahead, count, block, record + 2 * ROW_VECTORS);
#endif
  }
#endif
}

// Merges the next segment's record into `total`, which is a record, too.
static inline void MR_Q(mr_fold)(float16* total, const float16* record, int is_first) {
  if (is_first) {
    for (uint i = 0; i < RECORD_VECTORS; ++i) total[i] = record[i];
    return;
  }
  float16 f[ROW_VECTORS], g[ROW_VECTORS];
  for (uint i = 0; i < ROW_VECTORS; ++i) {
    const float16 merged = mr_larger16(total[i], record[i]);
    f[i] = mr_exp16_below(total[i] - merged);
    g[i] = mr_exp16_below(record[i] - merged);
    total[i] = merged;
    total[ROW_VECTORS + i] =
        fma(total[ROW_VECTORS + i], f[i], record[ROW_VECTORS + i] * g[i]);
  }
  for (uint r = 0; r < ROWS; ++r) {
    const float16 scale_total = (float16)(((const float*)f)[r]);
    const float16 scale_record = (float16)(((const float*)g)[r]);
    for (uint c = 0; c < VALUE_BLOCKS; ++c) {
      const uint i = 2 * ROW_VECTORS + r * VALUE_BLOCKS + c;
      total[i] = fma(total[i], scale_total, record[i] * scale_record);
    }
  }
}

#if KEY_CENTERED
// Adds to m the part that a segment's scores lack: lane i adds the products of channels i, i + 16,
// ... of a row's query and the mean key; mr_sum16. With MEAN_IN_SCORES m is 0 before.
static inline void MR_Q(mr_add_mean)(const float16* plain, __global const float* mean, float* m) {
  for (uint r = 0; r < ROWS; ++r, plain += CHANNEL_BLOCKS) {
    float16 sum = (float16)(0.0f);
    for (uint c = 0; c < CHANNEL_BLOCKS; ++c) sum = fma(plain[c], mr_load16(mean + c * 16), sum);
    m[r] = m[r] + mr_sum16(sum);
  }
}
#endif

// Loads a tile's queries, applies RoPE and multiplies by scale: q[row][HEAD_DIM], or the layout of
// integer.cl. For rotated keys q is rotated further; `plain`, filled where keys are centered, is
// not.
static inline void MR_Q(mr_queries)(const Unit* unit, __global const float* qkv, uint qkv_stride,
                                    __global const float* rope, float scale, float* q,
                                    float16* plain) {
#if KEY_INTEGERS
  float16 row[CHANNEL_BLOCKS];
  float* const packed = q;
  q = (float*)row;
#elif KEY_KIND == KV_AFFINE
  float* sums = q + ROWS * HEAD_DIM;
#endif
  for (uint r = 0; r < ROWS; ++r) {
    const uint t = min(r / GROUP, unit->tokens - 1);
    mr_rotate_head(qkv + (size_t)(unit->token + t) * qkv_stride +
                       (unit->set * GROUP + r % GROUP) * HEAD_DIM,
                   rope + (size_t)(unit->position + t) * ROPE_DIM, q);
    for (uint d = 0; d < HEAD_DIM; d += 16) mr_put16(mr_take16(q + d) * scale, q + d);
#if KEY_CENTERED
    for (uint d = 0; d < HEAD_DIM; d += 16) *plain++ = mr_take16(q + d);
#endif
#if KEY_KIND == KV_ROTATED
    mr_turn_query((float16*)q);
#endif
#if KEY_INTEGERS
    MR_Q(mr_pack_query)(q, r, packed);
#else
#if KEY_KIND == KV_AFFINE
    for (uint g = 0; g < KEY_SETS; ++g) sums[r * KEY_SETS + g] = mr_sum_channels(q + g * KEY_GROUP);
#endif
    q += HEAD_DIM;
#endif
  }
}

// Folds sinks into L and writes A * mr_recip(L), as floats to `out` and as quantized blocks of 32
// channels to `codes`; either may be null.
static inline void MR_Q(mr_output)(const Unit* unit, const float16* total,
                                   __global const float* sinks, __global float* out,
                                   uint out_stride, __global int* codes, uint code_stride) {
  float16 inverse[ROW_VECTORS];
#if SINKS
  float16 sink[ROW_VECTORS];
  for (uint i = 0; i < ROW_VECTORS; ++i) sink[i] = (float16)(0.0f);
  for (uint r = 0; r < ROWS; ++r) ((float*)sink)[r] = sinks[unit->set * GROUP + r % GROUP];
  for (uint i = 0; i < ROW_VECTORS; ++i) {
    const float16 merged = mr_larger16(total[i], sink[i]);
    const float16 f = mr_exp16_below(total[i] - merged);
    const float16 g = mr_exp16_below(sink[i] - merged);
    inverse[i] = f * mr_recip16(fma(total[ROW_VECTORS + i], f, g));
  }
#else
  for (uint i = 0; i < ROW_VECTORS; ++i) inverse[i] = mr_recip16(total[ROW_VECTORS + i]);
#endif
  for (uint r = 0; r < unit->tokens * GROUP; ++r) {
    const size_t token = unit->token + r / GROUP;
    const uint head = unit->set * GROUP + r % GROUP;
    const float16 factor = (float16)(((const float*)inverse)[r]);
    float16 row[VALUE_BLOCKS];
    for (uint c = 0; c < VALUE_BLOCKS; ++c) {
      row[c] = total[2 * ROW_VECTORS + r * VALUE_BLOCKS + c] * factor;
    }
#if VALUE_KIND == KV_ROTATED
    mr_turn_output(row);
#endif
    if (out != 0) {
      __global float* to = out + token * out_stride + head * VALUE_DIM;
      for (uint c = 0; c < VALUE_BLOCKS; ++c) mr_store16(row[c], to + c * 16);
    }
#if VALUE_DIM % 32 == 0
    if (codes != 0) {
      __global int* to = codes + token * code_stride + head * (VALUE_DIM / 32) * Q_WORDS;
      for (uint c = 0; c < VALUE_BLOCKS; c += 2) {
        mr_quantize(row[c], row[c + 1], to, c / 2);
      }
    }
#endif
  }
}

// Takes units until none is left, and counts finished ones in `finished` unless that is null.
static inline void MR_Q(mr_attend)(const Attention* a, uint units, uint unit_count,
                                   volatile __global uint* next_unit,
                                   volatile __global uint* finished) {
  float16 q[QUERY_VECTORS], e[ROWS * E_STRIDE / 16];
  float16 total[RECORD_VECTORS], record[RECORD_VECTORS];
#if KEY_CENTERED
  float16 plain[ROWS * CHANNEL_BLOCKS];
#else
  float16* const plain = 0;
#endif
#if MEAN_IN_SCORES
  float means[ROWS];
#else
  const float* const means = 0;
#endif
  for (uint i = 0; i < RECORD_VECTORS; ++i) record[i] = (float16)(0.0f);
  const uint unit_heads = unit_count * HEAD_SETS;
  for (;;) {
    const uint index = atomic_inc(next_unit);
    if (index >= unit_heads) break;
    const Unit unit = mr_unit(a->kv, a->step, a->positions, a->tables, units, index);
    const uint begin = mr_first_seen(unit.position) / SEGMENT_TOKENS;
    const uint segments = (unit.position + unit.tokens - 1) / SEGMENT_TOKENS + 1;
#if NARROW && STORES
    if (unit.last == segments) {
      mr_store_token(a->qkv + (size_t)unit.token * a->qkv_stride, a->rope, a->means, a->kv,
                     unit.table[unit.position / PAGE_TOKENS], unit.position, unit.kv_head);
    }
#endif
    MR_Q(mr_queries)(&unit, a->qkv, a->qkv_stride, a->rope, a->scale, (float*)q, plain);
    __global const UnitRecord* cut = mr_unit_record(a->step, units, index / HEAD_SETS);
    __global float16* records =
        a->partial + ((size_t)cut->partial * HEAD_SETS + unit.set) * RECORD_VECTORS;
    for (uint s = unit.first; s < unit.last; ++s) {
      Ahead ahead = mr_ahead(&unit, min(s + 1, segments - 1));
      if (s + 1 == unit.last) {  // prefetches for the unit that this core will probably take next
        const Unit next = mr_unit(a->kv, a->step, a->positions, a->tables, units,
                                  min(*next_unit, unit_heads - 1));
        ahead = mr_ahead(&next, next.first);
        mr_expect_queries(&next, a->qkv, a->qkv_stride);
      }
#if KEY_CENTERED
      __global const float* mean =
          mr_means_at(a->means, s * SEGMENT_TOKENS) + unit.kv_head * HEAD_DIM;
#endif
#if MEAN_IN_SCORES
      for (uint r = 0; r < ROWS; ++r) means[r] = 0.0f;
      MR_Q(mr_add_mean)(plain, mean, means);
#endif
      MR_Q(mr_segment)(&unit, (const float*)q, means, (float*)e, s, &ahead, record);
#if KEY_CENTERED && !MEAN_IN_SCORES
      MR_Q(mr_add_mean)(plain, mean, (float*)record);
#endif
      if (cut->parts == 0) {
        MR_Q(mr_fold)(total, record, s == begin);
      } else {
        __global float16* to = records + (size_t)(s - begin) * HEAD_SETS * RECORD_VECTORS;
        for (uint i = 0; i < RECORD_VECTORS; ++i) to[i] = record[i];
      }
    }
    int is_whole = 1;
    if (cut->parts != 0) {
      volatile __global uint* done = a->cuts + cut->counter * HEAD_SETS + unit.set;
      mem_fence(CLK_GLOBAL_MEM_FENCE);
      is_whole = atomic_inc(done) == cut->parts - 1;
      mem_fence(CLK_GLOBAL_MEM_FENCE);
      if (is_whole) atomic_xchg(done, 0);
      for (uint s = begin; is_whole && s < segments; ++s) {
        __global const float16* from = records + (size_t)(s - begin) * HEAD_SETS * RECORD_VECTORS;
        for (uint i = 0; i < RECORD_VECTORS; ++i) record[i] = from[i];
        MR_Q(mr_fold)(total, record, s == begin);
      }
    }
    if (is_whole) {
      MR_Q(mr_output)(&unit, total, a->sinks, a->out, a->out_stride, a->codes, a->code_stride);
    }
    if (finished != 0) {
      mem_fence(CLK_GLOBAL_MEM_FENCE);
      atomic_inc(finished);
    }
  }
}
