#pragma once
// Blocks of rotated codes for attention on the matrix unit in integers (nvidia_levels.cl, which has
// the contract). Keys and, of values, channels are the 16 rows of an instruction, so that a block's
// codes are expanded once for all rows of a warp, and fill the instruction however few these are.
//
// Its columns are digits of a row's integers: n = 256 * high + low, both signed bytes. Column 2t of
// tile n is the high digit of row 4n + t, column 2t + 1 the low one; so lane 4g + t of a warp has
// the sums of row 4n + t. Of a block it has the scores of keys 4g to 4g + 3, and of values the
// channels 4g to 4g + 3 of every 32.
//
// Sums begin with a number whose bits, counted up, are those of the float plus the sum, so that a
// subtraction makes them floats. They stay within 2^22, because HEAD_DIM is at most 256.
#include "attention/blocks.cl"
#include "attention/code_copies.cl"
#include "attention/warp.cl"
#include "attention/weights.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#if LEVELS
#define KEYS 1
#include "attention/levels.cl"
#undef KEYS
#define KEYS 0
#include "attention/levels.cl"
#undef KEYS

#define LONE (GROUP_WARPS == 1)
#define LEVEL_TOKENS (LONE ? 1 : WARP_TOKENS)  // of a warp
#define LEVEL_ROWS (LEVEL_TOKENS * GROUP)
#define ROW_TILES ((LEVEL_ROWS + 3) / 4)
#define LEVEL_CHUNKS (HEAD_DIM / 32)  // of channels, which an instruction takes of keys
#define COUNT_BEGIN 0x4b400000        // 1.5 * 2^23
#define COUNT_FLOAT 12582912.0f

// What a lane has of its rows' sums, relative to 2^m.
typedef struct {
  float a[ROW_TILES][LEVEL_CHUNKS][4], l[ROW_TILES], m[ROW_TILES];
} LevelSums;

MR_GROUP_INLINE void mr_clear_levels(LevelSums* sums) {
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_UNIT_EACH(k, LEVEL_CHUNKS) MR_EACH(i, 4) sums->a[n][k][i] = 0.0f;
    sums->l[n] = 0.0f;
    sums->m[n] = -INFINITY;
  }
}

// Numbers of which the largest has these bits, without its sign, become integers of at most 2^14 as
// multiples of `unit`, a power of two. The unit of numbers with NaN or an infinity is NaN.
MR_GROUP_INLINE float mr_unit_of(uint size, float* inverse) {
  const uint exponent = max(size & 0x7f800000u, 27u << 23);
  *inverse = as_float((267u << 23) - exponent);
  return size < 0x7f800000u ? as_float(exponent - (13u << 23)) : NAN;
}
MR_GROUP_INLINE uint mr_size_of(float x) { return as_uint(x) & 0x7fffffffu; }
// Four of them, as words of high and low digits.
MR_GROUP_INLINE void mr_digits(uint* high, uint* low, const float* x, float inverse) {
  uint n[4];  // low digits plus 128
  MR_EACH(i, 4) n[i] = as_uint(fma(x[i], inverse, COUNT_FLOAT + 128.0f));
  const uint first = mr_permute(n[0], n[1], 0x4051), second = mr_permute(n[2], n[3], 0x4051);
  *high = mr_permute(first, second, 0x5410);
  *low = mr_permute(first, second, 0x7632) ^ 0x80808080u;
}

// The queries of a warp as operand b, [chunk][tile]: in registers, or in local memory where tiles
// are several.
#define LEVEL_QUERIES (LEVEL_CHUNKS * ROW_TILES)
#if ROW_TILES == 1
typedef uint (*LevelQueries)[2];
#else
typedef __local uint2* LevelQueries;  // [LEVEL_QUERIES][32]
#endif

// The channel of a chunk whose code is byte e of eight of lanes t.
#define LEVEL_CHANNEL(t, e) \
  (KEY_BITS == 4 ? 8 * (t) + (e) / 2 + 4 * ((e) % 2) : 4 * (t) + (e) / 2 + 16 * ((e) % 2))

// Makes operands of rows that stand in local memory, and their units, times HEAD_DIM.
MR_GROUP_INLINE void mr_level_queries(LevelQueries q, float* units, __local float* unit_memory,
                                      __local const float* rows, uint count,
                                      uint lane MR_QUAD_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  MR_UNIT_EACH(n, ROW_TILES) {
    const uint row = 4 * n + g / 2;  // of the lane's column
    const int exists = row < count;
    __local const float* x = rows + (exists ? row : 0) * HEAD_DIM;
    float own[LEVEL_CHUNKS][8];
    uint size = 0;
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      MR_EACH(e, 8) {
        own[c][e] = exists ? x[32 * c + LEVEL_CHANNEL(t, e)] : 0.0f;
        size = max(size, mr_size_of(own[c][e]));
      }
    }
    size = max(size, mr_other(size, 1));
    size = max(size, mr_other(size, 2));
    float inverse;
    const float unit = mr_unit_of(size, &inverse);
    if (t == 0 && g % 2 == 0) unit_memory[row] = unit;
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      uint words[2];
      MR_EACH(i, 2) {
        uint high, low;
        mr_digits(&high, &low, own[c] + 4 * i, inverse);
        words[i] = g % 2 == 0 ? high : low;
      }
#if ROW_TILES == 1
      MR_EACH(i, 2) q[c][i] = words[i];
#else
      q[(c * ROW_TILES + n) * 32 + lane] = (uint2)(words[0], words[1]);
#endif
    }
  }
  MR_WARP_BARRIER();
  MR_UNIT_EACH(n, ROW_TILES) units[n] = unit_memory[4 * n + t];
}
MR_GROUP_INLINE void mr_level_query(uint* words, LevelQueries q, uint c, uint n, uint lane) {
#if ROW_TILES == 1
  MR_EACH(i, 2) words[i] = q[c][i];
#else
  const uint2 loaded = q[(c * ROW_TILES + n) * 32 + lane];
  words[0] = loaded.x;
  words[1] = loaded.y;
#endif
}

// The codes of keys 4g + 2 * tile and the next, and of a chunk's channels, as nibbles.
MR_GROUP_INLINE void mr_key_codes(uint* nibbles, __local const uint4* keys, uint c, uint tile,
                                  uint lane) {
  const uint page = lane / 16, quad = lane / 4 % 4, t = lane % 4;
  __local const uint2* words = (__local const uint2*)(keys + page * KEY_STORED) + tile;
#if KEY_BITS == 4
  const uint2 codes = words[32 * c + 2 * ((4 * t + quad) ^ KEY_SWAP(4 * t))];
  nibbles[0] = codes.x;
  nibbles[1] = codes.y;
#else
  const uint at = 16 * c + 2 * quad;
  const uint2 first = words[at], second = words[at + 8];
  uint2 high = (uint2)(0);
  if (KEY_BITS == 3) high = words[HEAD_DIM / 2 + 8 * c + 2 * quad];
  nibbles[0] = mr_nibbles_key(first.x, second.x, high.x, high.x, t, t, 4 + t);
  nibbles[1] = mr_nibbles_key(first.y, second.y, high.y, high.y, t, t, 4 + t);
#endif
}
// The codes of channels 4g to 4g + 3 of 32 and of quads of positions of both pages, as nibbles.
MR_GROUP_INLINE void mr_value_codes(uint* nibbles, __local const uint4* values, uint k,
                                    uint lane) {
  const uint g = lane / 4, t = lane % 4;
#if VALUE_BITS == 4
  const uint at = 16 * k + 8 * (g / 4) + 4 * (t / 2) + g % 4, quad = t % 2;
#else
  const uint at = 8 * k + g, quad = t;
#endif
  const uint4 first = values[at], second = values[VALUE_STORED + at];
  uint4 high = (uint4)(0), next_high = (uint4)(0);
  if (VALUE_BITS == 3) {
    high = values[HEAD_DIM / 4 + 4 * k + g % 4];
    next_high = values[VALUE_STORED + HEAD_DIM / 4 + 4 * k + g % 4];
  }
  const uint bit = g / 4 * 4 + t;
  nibbles[0] = mr_nibbles_value(first.x, second.x, high.x, next_high.x, quad, bit, bit);
  nibbles[1] = mr_nibbles_value(first.y, second.y, high.y, next_high.y, quad, bit, bit);
  nibbles[2] = mr_nibbles_value(first.z, second.z, high.z, next_high.z, quad, bit, bit);
  nibbles[3] = mr_nibbles_value(first.w, second.w, high.w, next_high.w, quad, bit, bit);
}

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

// Sums of 16 rows, `less` those of low levels where a side has them: of the lane's row and of rows
// g and g + 8 of the instruction, the digits put together.
MR_GROUP_INLINE float mr_counted(const int* sums, const int* less, uint e, int has_low) {
  const float high_less = has_low ? as_float(less[2 * e]) : COUNT_FLOAT;
  const float low_less = has_low ? as_float(less[2 * e + 1]) : COUNT_FLOAT;
  return fma(as_float(sums[2 * e]) - high_less, 256.0f, as_float(sums[2 * e + 1]) - low_less);
}

// The four norms of a page's side at `parameters` that are a lane's.
MR_GROUP_INLINE void mr_norms(float* norms, __local const uint4* parameters, uint lane) {
  const uint2 words = ((__local const uint2*)parameters)[lane / 4 % 4];
  norms[0] = mr_from_half(words.x & 0xffff);
  norms[1] = mr_from_half(words.x >> 16);
  norms[2] = mr_from_half(words.y & 0xffff);
  norms[3] = mr_from_half(words.y >> 16);
}

// The scores of keys 4g to 4g + 3 of a block.
MR_GROUP_INLINE void mr_level_scores(float s[ROW_TILES][4], LevelQueries q, const float* units,
                                     __local const uint4* keys, uint lane MR_MMA_PARAMETER) {
  float norms[4];
  mr_norms(norms, keys + lane / 16 * KEY_STORED + KEY_CODES, lane);
  MR_UNIT_EACH(tile, 2) {
    int sums[ROW_TILES][4], less[ROW_TILES][4];
    MR_UNIT_EACH(n, ROW_TILES) MR_EACH(i, 4) sums[n][i] = less[n][i] = COUNT_BEGIN;
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      uint nibbles[2];
      Levels a;
      mr_key_codes(nibbles, keys, c, tile, lane);
      MR_LEVELS(&a, nibbles, mr_level_words_key);
      MR_UNIT_EACH(n, ROW_TILES) {
        uint b[2];
        mr_level_query(b, q, c, n, lane);
        mr_mma_bytes(sums[n], a.high, b);
        if (KEY_BITS == 4) mr_mma_bytes(less[n], a.low, b);
      }
    }
    MR_UNIT_EACH(n, ROW_TILES) {
      const float unit = units[n] * (KEY_STEP / HEAD_DIM);
      MR_EACH(e, 2) {
        s[n][2 * tile + e] =
            mr_counted(sums[n], less[n], e, KEY_BITS == 4) * unit * norms[2 * tile + e];
      }
    }
  }
}

// What weights a lane has for a block's values: operands b, their units, and factors of the sums
// before.
typedef struct {
  uint b[ROW_TILES][2];
  float units[ROW_TILES], factors[ROW_TILES];
} LevelWeights;

// Words of a warp: [row tile][column][8], four positions each.
#define WEIGHT_WORDS (ROW_TILES * 64)

MR_GROUP_INLINE void mr_level_weights(LevelWeights* to, float s[ROW_TILES][4], LevelSums* sums,
                                      __local const uint4* values, __local uint* memory,
                                      uint lane MR_QUAD_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  float norms[4];
  mr_norms(norms, values + lane / 16 * VALUE_STORED + VALUE_CODES, lane);
  MR_UNIT_EACH(n, ROW_TILES) {
    float top = fmax(fmax(s[n][0], s[n][1]), fmax(s[n][2], s[n][3]));
    MR_UNIT_EACH(i, 3) top = fmax(top, as_float(mr_other(as_uint(top), 4 << i)));
    const float before = sums->m[n];
    sums->m[n] = fmax(before, top);
    const float from = sums->m[n] == -INFINITY ? 0.0f : sums->m[n];
    to->factors[n] = mr_power(before - from);
    float w[4], scaled[4];
    uint size = 0;
    MR_EACH(i, 4) {
      w[i] = mr_power(s[n][i] - from);
      // What is not seen has no norm, or one that does not count.
      scaled[i] = w[i] == 0.0f ? 0.0f : w[i] * norms[i];
      size = max(size, mr_size_of(scaled[i]));
    }
    sums->l[n] = fma(sums->l[n], to->factors[n], (w[0] + w[1]) + (w[2] + w[3]));
    MR_UNIT_EACH(i, 3) size = max(size, mr_other(size, 4 << i));
    float inverse;
    to->units[n] = mr_unit_of(size, &inverse);
    uint high, low;
    mr_digits(&high, &low, scaled, inverse);
    memory[(8 * n + 2 * t) * 8 + g] = high;
    memory[(8 * n + 2 * t + 1) * 8 + g] = low;
  }
  MR_WARP_BARRIER();
  MR_UNIT_EACH(n, ROW_TILES) {
    const uint first = memory[(8 * n + g) * 8 + t], second = memory[(8 * n + g) * 8 + 4 + t];
    to->b[n][0] = mr_permute(first, second, 0x5140);
    to->b[n][1] = mr_permute(first, second, 0x7362);
  }
}

// Adds a block's values, times weights, to the sums times their factors.
MR_GROUP_INLINE void mr_add_levels(LevelSums* sums, const LevelWeights* weights,
                                   __local const uint4* values, uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(k, LEVEL_CHUNKS) {
    uint nibbles[4];
    mr_value_codes(nibbles, values, k, lane);
    MR_UNIT_EACH(tile, 2) {
      Levels a;
      MR_LEVELS(&a, nibbles + 2 * tile, mr_level_words_value);
      MR_UNIT_EACH(n, ROW_TILES) {
        int counts[4], less[4];
        MR_EACH(i, 4) counts[i] = less[i] = COUNT_BEGIN;
        mr_mma_bytes(counts, a.high, weights->b[n]);
        if (VALUE_BITS == 4) mr_mma_bytes(less, a.low, weights->b[n]);
        MR_EACH(e, 2) {
          float* sum = &sums->a[n][k][2 * tile + e];
          *sum = fma(mr_counted(counts, less, e, VALUE_BITS == 4), weights->units[n],
                     *sum * weights->factors[n]);
        }
      }
    }
  }
}
#endif
