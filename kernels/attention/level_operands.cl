#pragma once
// Codes of a block as operands of attention in levels (level_blocks.cl, which says whose they are),
// and norms.
#include "attention/blocks.cl"
#include "attention/code_copies.cl"
#include "attention/weights.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#define KEYS 1
#include "attention/levels.cl"
#undef KEYS
#define KEYS 0
#include "attention/levels.cl"
#undef KEYS

#if LEVELS
#define LONE (GROUP_WARPS == 1)
#define LEVEL_TOKENS (LONE ? 1 : WARP_TOKENS)  // of a warp
#define LEVEL_ROWS (LEVEL_TOKENS * GROUP)
#define ROW_TILES ((LEVEL_ROWS + 3) / 4)
#define HALVES (KEY_BLOCK / 32)
#define LEVEL_CHUNKS (HEAD_DIM / 32)  // of channels, which an instruction takes of keys

// A lane's eight codes of a row are two quads, or the words of two, in the nibbles of a word:
// the first channel of quad i of a chunk's keys, and the place of quad i of 32 positions of values.
#if KEY_BITS == 4
#define KEY_QUAD(t, i) (8 * (t) + 4 * (i))
#else
#define KEY_QUAD(t, i) (16 * ((t) / 2 ^ (i)) + 8 * (i) + 4 * ((t) % 2))
#endif
#if VALUE_BITS == 4
#define VALUE_QUAD(t, i) (2 * (t) + (i))
#else
#define VALUE_QUAD(t, i) (4 * ((t) / 2 ^ (i)) + 2 * (i) + (t) % 2)
#endif

// The codes of keys 4g + 2 * tile and the next, and of a chunk's channels, as nibbles.
MR_GROUP_INLINE void mr_key_codes(uint* nibbles, __local const uint4* keys, uint c, uint tile,
                                  uint lane) {
  const uint page = lane / 16, quad = lane / 4 % 4, t = lane % 4;
  __local const uint2* words = (__local const uint2*)(keys + page * KEY_STORED) + tile;
#if KEY_BITS == 4
  const uint2 codes = words[32 * c + 2 * (4 * t + quad)];
  nibbles[0] = codes.x;
  nibbles[1] = codes.y;
#else
  const uint at = 16 * c + 2 * quad, later = t / 2 * 8;
  const uint2 first = words[at + later], second = words[at + 8 - later];
  uint2 high = (uint2)(0);
  if (KEY_BITS == 3) high = words[HEAD_DIM / 2 + 8 * c + 2 * quad];
  const uint bit = t / 2 * 4 + t % 2, second_bit = 6 + t % 2 - t / 2 * 4;
  nibbles[0] = mr_nibbles_key(first.x, second.x, high.x, high.x, t % 2, bit, second_bit);
  nibbles[1] = mr_nibbles_key(first.y, second.y, high.y, high.y, t % 2, bit, second_bit);
#endif
}
// The codes of channels 4g to 4g + 3 of 32 and of quads of positions of two pages, as nibbles.
MR_GROUP_INLINE void mr_value_codes(uint* nibbles, __local const uint4* values, uint k,
                                    uint lane) {
  const uint g = lane / 4, t = lane % 4, page = t / 2 * VALUE_STORED;
#if VALUE_BITS == 4
  const uint4 words = values[page + 16 * k + 8 * (g / 4) + 4 * (t % 2) + g % 4];
  nibbles[0] = words.x;
  nibbles[1] = words.y;
  nibbles[2] = words.z;
  nibbles[3] = words.w;
#else
  __local const uint4* other = values + (VALUE_STORED - page);
  const uint4 first = values[page + 8 * k + g], second = other[8 * k + g];
  uint4 high = (uint4)(0), second_high = (uint4)(0);
  if (VALUE_BITS == 3) {
    high = values[page + HEAD_DIM / 4 + 4 * k + g % 4];
    second_high = other[HEAD_DIM / 4 + 4 * k + g % 4];
  }
  const uint quad = t % 2, at = g / 4 * 4 + quad, later = at + 2;
  nibbles[0] = mr_nibbles_value(first.x, second.x, high.x, second_high.x, quad, at, later);
  nibbles[1] = mr_nibbles_value(first.y, second.y, high.y, second_high.y, quad, at, later);
  nibbles[2] = mr_nibbles_value(first.z, second.z, high.z, second_high.z, quad, at, later);
  nibbles[3] = mr_nibbles_value(first.w, second.w, high.w, second_high.w, quad, at, later);
#endif
}

// A block: where its pages stand or, with several warps, what they have become.
typedef struct {
  uint number;
#if LONE
  __local const uint4 *keys, *values;
#else
  __local const uint4* operands;
  __local const float* norms;
#endif
} LevelBlock;

// Codes of rows g and g + 8 of an instruction, as nibbles, as its operand a, and as that of low
// levels.
typedef struct {
  uint high[4], low[4];
} Levels;
#define MR_LEVELS(levels, nibbles, function)            \
  MR_EACH(row, 2) {                                     \
    uint of_high[2], of_low[2] = {0, 0};                \
    function(of_high, of_low, (nibbles)[row]);          \
    MR_EACH(i, 2) {                                     \
      (levels)->high[2 * i + row] = of_high[i];         \
      (levels)->low[2 * i + row] = of_low[i];           \
    }                                                   \
  }

// Whether the tile sees a position, or its sequence has it.
MR_GROUP_INLINE int mr_exists(const Source* source, uint key) {
  return key <= source->last && key / PAGE_TOKENS >= source->first_page;
}

#if LONE
// Codes become operands where they are multiplied.
#define KEYS_LOW (KEY_BITS == 4)  // whether low levels are operands of their own
#define VALUES_LOW (VALUE_BITS == 4)
#else
// Codes become operands once for all warps of a group, which stand in local memory: of a block's
// keys [half and tile][chunk][32 lanes], then of its values [chunk][half][tile][32 lanes].
#define KEYS_LOW 0
#define VALUES_LOW 0
#define KEY_OPERANDS (2 * HALVES * LEVEL_CHUNKS)

// Levels of both signs as bytes: of each, one of `high` and `low` is 0.
static inline uint mr_signed_levels(uint high, uint low) {
  return ((0x80808080u - low) ^ 0x80808080u) | high;
}
MR_GROUP_INLINE void mr_put_operand(__local uint4* to, const Levels* a) {
  uint words[4];
  MR_EACH(i, 4) words[i] = mr_signed_levels(a->high[i], a->low[i]);
  *to = (uint4)(words[0], words[1], words[2], words[3]);
}
MR_GROUP_INLINE void mr_norms_at(float* to, __local const float* norms) {
  const float4 four = *(__local const float4*)norms;
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}
MR_GROUP_INLINE void mr_get_operand(uint* words, __local const uint4* operand) {
  const uint4 a = *operand;
  words[0] = a.x;
  words[1] = a.y;
  words[2] = a.z;
  words[3] = a.w;
}
// Also makes floats of norms: of keys, then of values, which are 0 where the tile sees nothing.
MR_GROUP_INLINE void mr_expand_block(__local uint4* operands, __local float* norms,
                                     __local const uint4* keys, __local const uint4* values,
                                     const Source* source, uint block, uint warp, uint lane) {
  MR_UNROLLED for (uint i = warp * 32 + lane; i < 2 * KEY_BLOCK; i += GROUP_ITEMS) {
    const uint key = i % KEY_BLOCK, page = key / PAGE_TOKENS, slot = key % PAGE_TOKENS;
    const int is_value = i >= KEY_BLOCK;
    __local const uint4* of = is_value ? values + page * VALUE_STORED + VALUE_CODES
                                       : keys + page * KEY_STORED + KEY_CODES;
    const float norm = mr_from_half(((__local const ushort*)of)[slot]);
    norms[i] = !is_value || mr_exists(source, block * KEY_BLOCK + key) ? norm : 0.0f;
  }
  MR_UNROLLED for (uint i = warp; i < KEY_OPERANDS; i += GROUP_WARPS) {
    const uint half_tile = i / LEVEL_CHUNKS;
    uint nibbles[2];
    Levels a;
    mr_key_codes(nibbles, keys + half_tile / 2 * (2 * KEY_STORED), i % LEVEL_CHUNKS,
                 half_tile % 2, lane);
    MR_LEVELS(&a, nibbles, mr_level_words_key);
    mr_put_operand(operands + i * 32 + lane, &a);
  }
  MR_UNROLLED for (uint i = warp; i < KEY_OPERANDS / 2; i += GROUP_WARPS) {
    uint nibbles[4];
    mr_value_codes(nibbles, values + i % HALVES * (2 * VALUE_STORED), i / HALVES, lane);
    MR_EACH(tile, 2) {
      Levels a;
      MR_LEVELS(&a, nibbles + 2 * tile, mr_level_words_value);
      mr_put_operand(operands + (KEY_OPERANDS + 2 * i + tile) * 32 + lane, &a);
    }
  }
}
#endif

// The norms of a lane's four keys, of which the page stands there with its parameters.
MR_GROUP_INLINE void mr_page_norms(float* norms, __local const uint4* parameters, uint lane) {
  const uint2 words = ((__local const uint2*)parameters)[lane / 4 % 4];
  norms[0] = mr_from_half(words.x & 0xffff);
  norms[1] = mr_from_half(words.x >> 16);
  norms[2] = mr_from_half(words.y & 0xffff);
  norms[3] = mr_from_half(words.y >> 16);
}
// The norms of keys 4g to 4g + 3 of a half, of keys, or of values as they count.
MR_GROUP_INLINE void mr_key_norms(float* to, const LevelBlock* block, uint part, uint lane) {
#if LONE
  const uint page = 2 * part + lane / 16;
  mr_page_norms(to, block->keys + page * KEY_STORED + KEY_CODES, lane);
#else
  mr_norms_at(to, block->norms + 32 * part + lane / 4 * 4);
#endif
}
MR_GROUP_INLINE void mr_value_norms(float* to, const LevelBlock* block, const Source* source,
                                    uint lane) {
#if LONE
  const uint g = lane / 4, first = block->number * KEY_BLOCK;
  MR_UNIT_EACH(part, HALVES) {
    const uint page = 2 * part + lane / 16;
    mr_page_norms(to + 4 * part, block->values + page * VALUE_STORED + VALUE_CODES, lane);
  }
  if (mr_exists(source, first) && mr_exists(source, first + KEY_BLOCK - 1)) return;
  MR_EACH(i, 4 * HALVES) {
    if (!mr_exists(source, first + i / 4 * 32 + 4 * g + i % 4)) to[i] = 0.0f;
  }
#else
  MR_UNIT_EACH(part, HALVES) {
    mr_norms_at(to + 4 * part, block->norms + KEY_BLOCK + 32 * part + lane / 4 * 4);
  }
#endif
}
#endif
