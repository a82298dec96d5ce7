#pragma once
// The parts of the cpu family's attention (tiles.cl) that do not depend on a tile's number of
// queries.
//
// Prefetches exist only where the driver compiles for the processor itself.
#include "attention/shape.cl"
#include "common/math.cl"
#include "common/prelude.cl"
#include "kv/codecs.cl"
#include "kv/layout.cl"
#include "kv/planes.cl"
#include "kv/vectors.cl"
#include "step/table.cl"

#if defined(__x86_64__) || defined(__aarch64__)
#define MR_PREFETCH(p) __builtin_prefetch((const void*)(size_t)(p), 0, 3)
#else
#define MR_PREFETCH(p)
#endif

// A unit of work: segments first to last - 1 of a tile.
typedef struct {
  __global const uchar* kv;
  __global const uint* table;
  uint token, tokens, position;  // of the tile
  uint set, kv_head;             // of its heads (heads.cl)
  uint first, last;
} Unit;

// Pages that will be read next, and whose contents are prefetched.
typedef struct {
  __global const uint* pages;
  uint count, kv_head;
} Ahead;

static inline Unit mr_unit(__global const uchar* kv, __global const uint* step, uint positions,
                           uint tables, uint units, uint index) {
  __global const UnitRecord* record = mr_unit_record(step, units, index / HEAD_SETS);
  const Unit unit = {.kv = kv,
                     .table = mr_page_table(step, tables, record->token),
                     .token = record->token,
                     .tokens = record->tokens,
                     .position = step[positions + record->token],
                     .set = index % HEAD_SETS,
                     .kv_head = index % HEAD_SETS / (HEAD_SETS / KV_HEADS),
                     .first = record->first,
                     .last = record->first + record->count};
  return unit;
}

// The number of a segment's positions that the unit reads, and the first of them: where the page
// of the first position that its first token sees begins. No token of it sees the pages before.
static inline uint mr_count(const Unit* unit, uint segment) {
  return min(unit->position + unit->tokens - segment * SEGMENT_TOKENS, (uint)SEGMENT_TOKENS) -
         mr_skipped(unit->position, segment);
}
static inline uint mr_start(const Unit* unit, uint segment) {
  return segment * SEGMENT_TOKENS + mr_skipped(unit->position, segment);
}

static inline Ahead mr_ahead(const Unit* unit, uint segment) {
  const Ahead ahead = {.pages = unit->table + mr_start(unit, segment) / PAGE_TOKENS,
                       .count = (mr_count(unit, segment) + PAGE_TOKENS - 1) / PAGE_TOKENS,
                       .kv_head = unit->kv_head};
  return ahead;
}

// Prefetches bytes `from` to `to` of the keys of page p, and with byte 0 their parameters.
static inline void mr_expect_keys(const Ahead* ahead, __global const uchar* kv, uint p, uint from,
                                  uint to) {
  const uint page = ahead->pages[min(p, ahead->count - 1)];
  __global const uchar* keys = kv + mr_keys_at(page, ahead->kv_head);
  for (uint at = from; at < to; at += 64) MR_PREFETCH(keys + at);
  if (from > 0) return;
  __global const uchar* parameters = kv + mr_key_parameters_at(page, ahead->kv_head);
  for (uint at = 0; at < 32 * KEY_PARAMETERS; at += 64) MR_PREFETCH(parameters + at);
}

#if VALUE_KIND != KV_PLAIN
// Where a page's values begin for some channels: both planes, and the first bit to use in each byte
// of the high one.
typedef struct {
  __global const uchar* low;
  __global const uchar* high;
  uint skip;
} ValuePlanes;
#endif

static inline float16 mr_larger16(float16 a, float16 b) {
  return select(b, a, a > b);
}

// Computes mr_exp16 for x <= 0.
static inline float16 mr_exp16_below(float16 x) {
  const float16 magic = (float16)(12582912.0f);
  const float16 t = fma(x, (float16)(1.44269504f), magic);
  const float16 whole = t - magic;
  float16 r = fma(whole, (float16)(-0.693145752f), x);
  r = fma(whole, (float16)(-1.42860677e-6f), r);
  float16 p = (float16)(0.00139336521f);
  p = fma(p, r, (float16)(0.00836318173f));
  p = fma(p, r, (float16)(0.0416664667f));
  p = fma(p, r, (float16)(0.166665763f));
  p = fma(p, r, (float16)(0.5f));
  p = fma(p, r, (float16)(1.0f));
  p = fma(p, r, (float16)(1.0f));
  const float16 y = as_float16(as_int16(p) + (as_int16(t) << 23));
  return select(y, (float16)(0.0f), x < (float16)(-87.3f));
}

// Replaces `count` pages of one row's scores by e and returns l. A row that sees nothing has m =
// -inf, and its e are 0.
static inline float mr_softmax(float* e, uint count, float m) {
  const float16 top = (float16)(fmax(m, -3e38f));
  float16 sum = (float16)(0.0f);
  _Pragma("unroll 2") for (uint p = 0; p < count; ++p) {
    float16* at = (float16*)(e + p * PAGE_TOKENS);
    const float16 x = mr_exp16_below(*at - top);
    *at = x;
    sum = sum + x;
  }
  return mr_sum16(sum);
}

#if KEY_KIND == KV_AFFINE && !KEY_INTEGERS
// Sums a group's channels: lane i adds channels i, i + 16, ...; then mr_sum16.
static inline float mr_sum_channels(const float* q) {
  float16 sum = mr_take16(q);
  for (uint d = 16; d < KEY_GROUP; d += 16) sum = sum + mr_take16(q + d);
  return mr_sum16(sum);
}
#elif KEY_KIND == KV_ROTATED
// Rotates a query to match rotated keys: H (signs * q) / HEAD_DIM.
static inline void mr_turn_query(float16* q) {
  mr_flip(q, mr_signs_key);
  mr_hadamard(q);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) q[c] = q[c] * (float16)(1.0f / HEAD_DIM);
}
#endif
#if VALUE_KIND == KV_ROTATED
// Rotates a sum of rotated values back to channels: signs * (H a) / HEAD_DIM.
static inline void mr_turn_output(float16* a) {
  mr_hadamard(a);
  mr_flip(a, mr_signs_value);
  for (uint c = 0; c < CHANNEL_BLOCKS; ++c) a[c] = a[c] * (float16)(1.0f / HEAD_DIM);
}
#endif

static inline void mr_expect_queries(const Unit* unit, __global const float* qkv,
                                     uint qkv_stride) {
  for (uint t = 0; t < unit->tokens; ++t) {
    __global const float* from =
        qkv + (size_t)(unit->token + t) * qkv_stride + unit->set * GROUP * HEAD_DIM;
    for (uint d = 0; d < GROUP * HEAD_DIM; d += 16) MR_PREFETCH(from + d);
  }
}

// The buffers and sizes of a step's attention; tiles.cl describes them.
typedef struct {
  __global const float* qkv;
  __global const float* rope;
  __global const float* means;  // of keys, where they are centered
  __global const float* sinks;  // with SINKS
  __global uchar* kv;
  __global const uint* step;
  __global float* out;
  __global int* codes;
  __global float16* partial;
  volatile __global uint* cuts;
  uint positions, tables, qkv_stride, out_stride, code_stride;
  float scale;
} Attention;
