#pragma once
// Codes of a block as operands of attention in integers (level_blocks.cl, which says whose they
// are), and parameters: norms, or scales and biases of each group of channels.
#include "attention/blocks.cl"
#include "attention/code_copies.cl"
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
// Warps that share the rows of one of nvidia.cl.
#ifndef WARP_PARTS
#define WARP_PARTS 1
#endif
#define LEVEL_TOKENS (LONE ? 1 : WARP_TOKENS / WARP_PARTS)  // of a warp
#define LEVEL_ROWS (LEVEL_TOKENS * GROUP)
#define ROW_TILES ((LEVEL_ROWS + 3) / 4)
#define HALVES (KEY_BLOCK / 32)
#define LEVEL_CHUNKS (HEAD_DIM / 32)  // of channels, which an instruction takes of keys
// Channels that share parameters, in chunks, and how many such sets a head has.
#define KEY_SET_CHUNKS (KEY_GROUP / 32)
#define VALUE_SET_CHUNKS (VALUE_GROUP / 32)
#define KEY_SETS (HEAD_DIM / KEY_GROUP)
#define VALUE_SETS (HEAD_DIM / VALUE_GROUP)

// A lane's eight codes of a row are two quads, in the nibbles of a word or a word each: the first
// channel of quad i of a chunk's keys, and the place of quad i of 32 positions of values.
#if KEY_BITS == 8
#define KEY_QUAD(t, i) (16 * (i) + 4 * (t))
#elif KEY_BITS == 4
#define KEY_QUAD(t, i) (8 * (t) + 4 * (i))
#else
#define KEY_QUAD(t, i) (16 * ((t) / 2 ^ (i)) + 8 * (i) + 4 * ((t) % 2))
#endif
#if VALUE_BITS == 8
#define VALUE_QUAD(t, i) (4 * (i) + (t))
#elif VALUE_BITS == 4
#define VALUE_QUAD(t, i) (2 * (t) + (i))
#else
#define VALUE_QUAD(t, i) (4 * ((t) / 2 ^ (i)) + 2 * (i) + (t) % 2)
#endif

// Codes of rows g and g + 8 of an instruction as its operand a, and as that of low levels. Its
// words are a quad each or, of levels, have bytes of both in turn.
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

// Keys 4g + 2 * tile and the next, of a chunk's channels.
MR_GROUP_INLINE void mr_key_levels(Levels* a, __local const uint4* keys, uint c, uint tile,
                                   uint lane) {
  const uint page = lane / 16, quad = lane / 4 % 4, t = lane % 4;
  __local const uint2* words = (__local const uint2*)(keys + page * KEY_STORED) + tile;
#if KEY_BITS == 8
  MR_EACH(i, 2) {
    const uint2 codes = mr_load_pair(words + 8 * (8 * c + 4 * i + t) + 2 * quad);
    a->high[2 * i] = codes.x;
    a->high[2 * i + 1] = codes.y;
    a->low[2 * i] = a->low[2 * i + 1] = 0;
  }
#else
  uint nibbles[2];
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
  MR_LEVELS(a, nibbles, mr_level_words_key);
#endif
}
#if VALUE_BITS < 8
// Codes of channels 4g to 4g + 3 of 32 and of a lane's quads of positions of two pages, as
// nibbles.
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
#endif
// Channels 4g + 2 * tile and the next; `nibbles` has those of mr_value_codes, if there are any.
MR_GROUP_INLINE void mr_value_levels(Levels* a, __local const uint4* values, const uint* nibbles,
                                     uint k, uint tile, uint lane) {
#if VALUE_BITS == 8
  const uint g = lane / 4, t = lane % 4;
  __local const uint2* words = (__local const uint2*)values + tile;
  MR_EACH(i, 2) {
    const uint2 codes = mr_load_pair(words + 2 * (i * VALUE_STORED + 4 * (8 * k + g / 4 * 4 + t) +
                                                  g % 4));
    a->high[2 * i] = codes.x;
    a->high[2 * i + 1] = codes.y;
    a->low[2 * i] = a->low[2 * i + 1] = 0;
  }
#else
  MR_LEVELS(a, nibbles + 2 * tile, mr_level_words_value);
#endif
}

// A block: where its pages stand or, with several warps, what they have become.
typedef struct {
  uint number;
#if LONE
  __local const uint4 *keys, *values;
#else
  __local const uint4* operands;
  __local const float* parameters;
#endif
} LevelBlock;

// Whether the tile sees a position, or its sequence has it.
MR_GROUP_INLINE int mr_exists(const Source* source, uint key) {
  return key <= source->last && key / PAGE_TOKENS >= source->first_page;
}

#if LONE
// Codes become operands where they are multiplied. Whether low levels are operands of their own:
#define KEYS_LOW (KEY_KIND == KV_ROTATED && KEY_BITS == 4)
#define VALUES_LOW (VALUE_KIND == KV_ROTATED && VALUE_BITS == 4)

MR_GROUP_INLINE void mr_key_operand(Levels* a, const LevelBlock* block, uint part, uint tile,
                                    uint c, uint lane) {
  mr_key_levels(a, block->keys + part * (2 * KEY_STORED), c, tile, lane);
}

// A parameter of a lane's four positions, of a page's parameters.
MR_GROUP_INLINE void mr_page_parameter(float* to, __local const uint4* parameters, uint index,
                                       uint lane) {
  const uint2 words = ((__local const uint2*)(parameters + 2 * index))[lane / 4 % 4];
  to[0] = mr_from_half(words.x & 0xffff);
  to[1] = mr_from_half(words.x >> 16);
  to[2] = mr_from_half(words.y & 0xffff);
  to[3] = mr_from_half(words.y >> 16);
}
// Of keys 4g to 4g + 3 of a half, and of such values of a block, which are 0 where the tile sees
// nothing.
MR_GROUP_INLINE void mr_key_parameter(float* to, const LevelBlock* block, uint part, uint index,
                                      uint lane) {
  const uint page = 2 * part + lane / 16;
  mr_page_parameter(to, block->keys + page * KEY_STORED + KEY_CODES, index, lane);
}
MR_GROUP_INLINE void mr_value_parameter(float* to, const LevelBlock* block, const Source* source,
                                        uint index, uint lane) {
  const uint g = lane / 4, first = block->number * KEY_BLOCK;
  MR_UNIT_EACH(part, HALVES) {
    const uint page = 2 * part + lane / 16;
    mr_page_parameter(to + 4 * part, block->values + page * VALUE_STORED + VALUE_CODES, index,
                      lane);
  }
  if (mr_exists(source, first) && mr_exists(source, first + KEY_BLOCK - 1)) return;
  MR_EACH(i, 4 * HALVES) {
    if (!mr_exists(source, first + i / 4 * 32 + 4 * g + i % 4)) to[i] = 0.0f;
  }
}
#else
// Codes become operands once for all warps of a group, which stand in local memory: of a block's
// keys [half and tile][chunk][32 lanes], then of its values [chunk][half][tile][32 lanes].
#define KEYS_LOW 0
#define VALUES_LOW 0
#define KEY_OPERANDS (2 * HALVES * LEVEL_CHUNKS)
#define BLOCK_PARAMETERS ((KEY_PARAMETERS + VALUE_PARAMETERS) * KEY_BLOCK)

// Levels of both signs as bytes: of each, one of `high` and `low` is 0.
static inline uint mr_signed_levels(uint high, uint low) {
  return ((0x80808080u - low) ^ 0x80808080u) | high;
}
MR_GROUP_INLINE void mr_put_operand(__local uint4* to, const Levels* a, int has_low) {
  uint words[4];
  MR_EACH(i, 4) words[i] = has_low ? mr_signed_levels(a->high[i], a->low[i]) : a->high[i];
  *to = (uint4)(words[0], words[1], words[2], words[3]);
}
MR_GROUP_INLINE void mr_get_operand(uint* words, __local const uint4* operand) {
  const uint4 a = *operand;
  words[0] = a.x;
  words[1] = a.y;
  words[2] = a.z;
  words[3] = a.w;
}
MR_GROUP_INLINE void mr_key_operand(Levels* a, const LevelBlock* block, uint part, uint tile,
                                    uint c, uint lane) {
  mr_get_operand(a->high,
                 block->operands + ((2 * part + tile) * LEVEL_CHUNKS + c) * 32 + lane);
}
MR_GROUP_INLINE void mr_value_operand(Levels* a, const LevelBlock* block, uint part, uint tile,
                                      uint k, uint lane) {
  const uint at = KEY_OPERANDS + (k * HALVES + part) * 2 + tile;
  mr_get_operand(a->high, block->operands + at * 32 + lane);
}
// Also makes floats of parameters, [parameter][position]: of keys, then of values, which are 0
// where the tile sees nothing.
MR_GROUP_INLINE void mr_expand_block(__local uint4* operands, __local float* parameters,
                                     __local const uint4* keys, __local const uint4* values,
                                     const Source* source, uint block, uint warp, uint lane) {
  MR_UNROLLED for (uint i = warp * 32 + lane; i < BLOCK_PARAMETERS; i += GROUP_ITEMS) {
    const uint key = i % KEY_BLOCK, page = key / PAGE_TOKENS, slot = key % PAGE_TOKENS;
    const uint index = i / KEY_BLOCK;
    const int is_value = index >= KEY_PARAMETERS;
    __local const uint4* of =
        is_value ? values + page * VALUE_STORED + VALUE_CODES + 2 * (index - KEY_PARAMETERS)
                 : keys + page * KEY_STORED + KEY_CODES + 2 * index;
    const float parameter = mr_from_half(((__local const ushort*)of)[slot]);
    parameters[i] = !is_value || mr_exists(source, block * KEY_BLOCK + key) ? parameter : 0.0f;
  }
  MR_UNROLLED for (uint i = warp; i < KEY_OPERANDS; i += GROUP_WARPS) {
    const uint half_tile = i / LEVEL_CHUNKS;
    Levels a;
    mr_key_levels(&a, keys + half_tile / 2 * (2 * KEY_STORED), i % LEVEL_CHUNKS, half_tile % 2,
                  lane);
    mr_put_operand(operands + i * 32 + lane, &a, KEY_KIND == KV_ROTATED && KEY_BITS == 4);
  }
  MR_UNROLLED for (uint i = warp; i < KEY_OPERANDS / 2; i += GROUP_WARPS) {
    __local const uint4* part = values + i % HALVES * (2 * VALUE_STORED);
    uint nibbles[4];
#if VALUE_BITS < 8
    mr_value_codes(nibbles, part, i / HALVES, lane);
#endif
    MR_EACH(tile, 2) {
      Levels a;
      mr_value_levels(&a, part, nibbles, i / HALVES, tile, lane);
      mr_put_operand(operands + (KEY_OPERANDS + 2 * i + tile) * 32 + lane, &a,
                     VALUE_KIND == KV_ROTATED && VALUE_BITS == 4);
    }
  }
}

MR_GROUP_INLINE void mr_parameter_at(float* to, __local const float* parameters) {
  const float4 four = *(__local const float4*)parameters;
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}
MR_GROUP_INLINE void mr_key_parameter(float* to, const LevelBlock* block, uint part, uint index,
                                      uint lane) {
  mr_parameter_at(to, block->parameters + index * KEY_BLOCK + 32 * part + lane / 4 * 4);
}
MR_GROUP_INLINE void mr_value_parameter(float* to, const LevelBlock* block, const Source* source,
                                        uint index, uint lane) {
  MR_UNIT_EACH(part, HALVES) {
    mr_parameter_at(to + 4 * part, block->parameters + (KEY_PARAMETERS + index) * KEY_BLOCK +
                                       32 * part + lane / 4 * 4);
  }
}
#endif
#endif
