#pragma once
// The layout of keys and values in memory: one buffer per layer, pages of 16 positions. README.md
// draws it.
//
//   page    codes of KV head 0: keys, then values; of head 1; ...
//           parameters of KV head 0: keys, then values; of head 1; ...   padded to whole 64 bytes
//   plain   halves or floats
//           keys   [HEAD_DIM][16]   position-fastest: a vector is 16 positions
//           values [16][HEAD_DIM]   channel-fastest:  a vector is 16 channels
//   packed  planes of words (planes.cl), keys with 16 positions as lanes, values with 16 channels
//
// With VALUES_IN_KEYS a page has no values: they are channels of its keys, which are plain.
//
// Keys are stored after RoPE. A page's content depends on its tokens' history alone. A sequence's
// page table (uint page ids) gives page i for positions 16i .. 16i+15.
//
// Defines of each side, with the prefix KEY_ or VALUE_: KIND; BITS, of a code or a plain number;
// GROUP, the channels that share a scale (HEAD_DIM where there is one parameter set); PARAMETERS,
// halves per token; INTEGERS, 1 where attention computes in integers (README.md). For rotated
// codecs also LEVELS, 2^BITS ascending floats, repeated up to 16; THRESHOLDS, the midpoints and a
// large number, repeated likewise; SIGNS, HEAD_DIM / 32 words; and where INTEGERS is 1 STEP, the
// unit of levels, and LEVEL_BYTES: 128 + each level in units of STEP, in runs of 16, each four
// times; a short run is repeated. KEY_CENTERED 1: the mean key of its segment is subtracted from
// each stored key, and attention adds it back.
#include "attention/heads.cl"
#include "common/prelude.cl"

#define PAGE_TOKENS 16
#define SEGMENT_TOKENS 256
#define CHANNEL_BLOCKS (HEAD_DIM / 16)
#define VALUE_BLOCKS (VALUE_DIM / 16)
// Values of KIND.
#define KV_PLAIN 0
#define KV_AFFINE 1
#define KV_ROTATED 2

// Halves, unless the defines say otherwise.
#ifndef KEY_KIND
#define KEY_KIND KV_PLAIN
#define KEY_BITS 16
#define KEY_GROUP HEAD_DIM
#define KEY_PARAMETERS 0
#define KEY_INTEGERS 0
#endif
#ifndef VALUE_KIND
#define VALUE_KIND KV_PLAIN
#define VALUE_BITS 16
#define VALUE_GROUP HEAD_DIM
#define VALUE_PARAMETERS 0
#define VALUE_INTEGERS 0
#endif
#ifndef KEY_CENTERED
#define KEY_CENTERED 0
#endif

// The names for plain numbers of so many bits: MR_KEY(name) is name_16 for halves.
#define MR_KEY(name) MR_JOINED(name, KEY_BITS)
#define MR_VALUE(name) MR_JOINED(name, VALUE_BITS)
// 1 / 32767: the unit of the 16-bit numbers to which attention rounds queries and weights, for a
// largest magnitude of 1.
#define MR_SHORT_UNIT 3.05185094e-05f

#define KEY_CODE_BYTES (2 * HEAD_DIM * KEY_BITS)
#define VALUE_CODE_BYTES (VALUES_IN_KEYS ? 0 : 2 * HEAD_DIM * VALUE_BITS)
#define HEAD_CODE_BYTES (KEY_CODE_BYTES + VALUE_CODE_BYTES)
#define HEAD_PARAMETER_BYTES (32 * (KEY_PARAMETERS + VALUE_PARAMETERS))
#define PAGE_BYTES ((KV_HEADS * (HEAD_CODE_BYTES + HEAD_PARAMETER_BYTES) + 63) / 64 * 64)

// Offsets from the buffer's beginning, in bytes.
static inline size_t mr_keys_at(uint page, uint kv_head) {
  return (size_t)page * PAGE_BYTES + kv_head * HEAD_CODE_BYTES;
}
static inline size_t mr_values_at(uint page, uint kv_head) {
  return mr_keys_at(page, kv_head) + (VALUES_IN_KEYS ? 0 : KEY_CODE_BYTES);
}
// The place of a plain value's channel there, counted in numbers.
static inline uint mr_value_number(uint slot, uint d) {
  return VALUES_IN_KEYS ? (VALUE_FIRST + d) * PAGE_TOKENS + slot : slot * HEAD_DIM + d;
}
static inline size_t mr_key_parameters_at(uint page, uint kv_head) {
  return (size_t)page * PAGE_BYTES + KV_HEADS * HEAD_CODE_BYTES + kv_head * HEAD_PARAMETER_BYTES;
}
static inline size_t mr_value_parameters_at(uint page, uint kv_head) {
  return mr_key_parameters_at(page, kv_head) + 32 * KEY_PARAMETERS;
}
#if KEY_CENTERED
// The rotated mean keys of a position's segment, [KV_HEADS][HEAD_DIM]; `means` has all segments.
static inline __global const float* mr_means_at(__global const float* means, uint position) {
  return means + (size_t)(position / SEGMENT_TOKENS) * (KV_HEADS * HEAD_DIM);
}
#endif
