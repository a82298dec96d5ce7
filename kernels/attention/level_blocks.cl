#pragma once
// Blocks of rotated codes for attention on the matrix unit in integers (nvidia_levels.cl, which has
// the contract). Keys and, of values, channels are the 16 rows of an instruction, so that a block's
// codes are expanded once for all rows of a warp, and fill the instruction however few these are.
//
// Its columns are digits of a row's integers: n = 256 * high + low, both signed bytes. Column 2t of
// tile n is the high digit of row 4n + t, column 2t + 1 the low one; so lane 4g + t of a warp has
// the sums of row 4n + t. Of 32 keys it has the scores of 4g to 4g + 3, and of values the channels
// 4g to 4g + 3 of every 32. A block is several such halves, so that fewer sums become floats.
//
// Sums begin with the bits of a float that, counted up, are those of the float plus the sum, and of
// high digits plus 256 times the sum, so that subtractions make them floats. Sums stay within 2^22,
// because HEAD_DIM is at most 256.
#include "attention/blocks.cl"
#include "attention/level_operands.cl"
#include "attention/level_queries.cl"
#include "attention/warp.cl"
#include "attention/weights.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#if LEVELS
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

// The sums of an instruction are those of the lane's row for rows g and g + 8 of operand a, high
// digits and low ones each.
MR_GROUP_INLINE void mr_begin_sums(int* sums) {
  sums[0] = sums[2] = HIGH_BEGIN;
  sums[1] = sums[3] = LOW_BEGIN;
}
// Those of row g or, with e 1, g + 8, the digits put together, less those of low levels where a
// side has them. All but the last addition are exact.
MR_GROUP_INLINE float mr_counted(const int* sums, const int* less, uint e, int has_low) {
  const float high = as_float(sums[2 * e]), low = as_float(sums[2 * e + 1]);
  if (!has_low) return (high - BOTH_FLOAT) + low;
  return (high - as_float(less[2 * e])) + (low - as_float(less[2 * e + 1]));
}

// The scores of keys 4g to 4g + 3 of each half of a block.
MR_GROUP_INLINE void mr_level_scores(float s[ROW_TILES][4 * HALVES], LevelQueries q,
                                     const float* units, const LevelBlock* block,
                                     uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(half_tile, 2 * HALVES) {
    const uint tile = half_tile % 2;
    float norms[4];
    mr_key_norms(norms, block, half_tile / 2, lane);
    int sums[ROW_TILES][4], less[ROW_TILES][4];
    MR_UNIT_EACH(n, ROW_TILES) {
      mr_begin_sums(sums[n]);
      mr_begin_sums(less[n]);
    }
    MR_UNIT_EACH(c, LEVEL_CHUNKS) {
      Levels a;
#if LONE
      uint nibbles[2];
      mr_key_codes(nibbles, block->keys + half_tile / 2 * (2 * KEY_STORED), c, tile, lane);
      MR_LEVELS(&a, nibbles, mr_level_words_key);
#else
      mr_get_operand(a.high, block->operands + (half_tile * LEVEL_CHUNKS + c) * 32 + lane);
#endif
      MR_UNIT_EACH(n, ROW_TILES) {
        uint b[2];
        mr_level_query(b, q, c, n, lane);
        mr_mma_bytes(sums[n], a.high, b);
        if (KEYS_LOW) mr_mma_bytes(less[n], a.low, b);
      }
    }
    MR_UNIT_EACH(n, ROW_TILES) {
      MR_EACH(e, 2) {
        s[n][2 * half_tile + e] = mr_counted(sums[n], less[n], e, KEYS_LOW) * units[n] *
                                  norms[2 * tile + e];
      }
    }
  }
}

// What weights a lane has for a block's values: operands b, their units, and factors of the sums
// before.
typedef struct {
  uint b[ROW_TILES][HALVES][2];
  float units[ROW_TILES], factors[ROW_TILES];
} LevelWeights;

// Words of a warp: [row tile][column][half][8], four positions each.
#define WEIGHT_WORDS (ROW_TILES * 64 * HALVES)
#define WEIGHT_AT(n, column, part) ((((n) * 8 + (column)) * HALVES + (part)) * 8)

MR_GROUP_INLINE void mr_level_weights(LevelWeights* to, float s[ROW_TILES][4 * HALVES],
                                      LevelSums* sums, const LevelBlock* block,
                                      const Source* source, __local uint* memory,
                                      uint lane MR_QUAD_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  float norms[4 * HALVES];
  mr_value_norms(norms, block, source, lane);
  MR_UNIT_EACH(n, ROW_TILES) {
    float top = -INFINITY;
    MR_EACH(i, 4 * HALVES) top = fmax(top, s[n][i]);
    MR_UNIT_EACH(i, 3) top = fmax(top, as_float(mr_other(as_uint(top), 4 << i)));
    const float before = sums->m[n];
    sums->m[n] = fmax(before, top);
    const float from = sums->m[n] == -INFINITY ? 0.0f : sums->m[n];
    to->factors[n] = mr_power(before - from);
    float w[4 * HALVES], scaled[4 * HALVES], own = 0.0f;
    uint size = 0;
    MR_EACH(i, 4 * HALVES) {
      w[i] = mr_power(s[n][i] - from);
      scaled[i] = w[i] * norms[i];
      size = max(size, mr_size_of(scaled[i]));
    }
    MR_EACH(part, HALVES) {
      const float* of = w + 4 * part;
      own = part == 0 ? (of[0] + of[1]) + (of[2] + of[3])
                      : own + ((of[0] + of[1]) + (of[2] + of[3]));
    }
    sums->l[n] = fma(sums->l[n], to->factors[n], own);
    MR_UNIT_EACH(i, 3) size = max(size, mr_other(size, 4 << i));
    float inverse;
    to->units[n] = mr_unit_of(size, &inverse);
    MR_EACH(part, HALVES) {
      uint high, low;
      mr_digits(&high, &low, scaled + 4 * part, inverse);
      memory[WEIGHT_AT(n, 2 * t, part) + g] = high;
      memory[WEIGHT_AT(n, 2 * t + 1, part) + g] = low;
    }
  }
  MR_WARP_BARRIER();
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_EACH(part, HALVES) {
      const uint at = WEIGHT_AT(n, g, part);
      const uint first = memory[at + VALUE_QUAD(t, 0)], second = memory[at + VALUE_QUAD(t, 1)];
      to->b[n][part][0] = mr_permute(first, second, 0x5140);
      to->b[n][part][1] = mr_permute(first, second, 0x7362);
    }
  }
}

// Adds a block's values, times weights, to the sums times their factors.
MR_GROUP_INLINE void mr_add_levels(LevelSums* sums, const LevelWeights* weights,
                                   const LevelBlock* block, uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(k, LEVEL_CHUNKS) {
#if LONE
    uint nibbles[HALVES][4];
    MR_UNIT_EACH(part, HALVES) {
      mr_value_codes(nibbles[part], block->values + part * (2 * VALUE_STORED), k, lane);
    }
#endif
    MR_UNIT_EACH(tile, 2) {
      int counts[ROW_TILES][4], less[ROW_TILES][4];
      MR_UNIT_EACH(n, ROW_TILES) {
        mr_begin_sums(counts[n]);
        mr_begin_sums(less[n]);
      }
      MR_UNIT_EACH(part, HALVES) {
        Levels a;
#if LONE
        MR_LEVELS(&a, nibbles[part] + 2 * tile, mr_level_words_value);
#else
        const uint at = KEY_OPERANDS + (k * HALVES + part) * 2 + tile;
        mr_get_operand(a.high, block->operands + at * 32 + lane);
#endif
        MR_UNIT_EACH(n, ROW_TILES) {
          mr_mma_bytes(counts[n], a.high, weights->b[n][part]);
          if (VALUES_LOW) mr_mma_bytes(less[n], a.low, weights->b[n][part]);
        }
      }
      MR_UNIT_EACH(n, ROW_TILES) {
        MR_EACH(e, 2) {
          float* sum = &sums->a[n][k][2 * tile + e];
          *sum = fma(mr_counted(counts[n], less[n], e, VALUES_LOW), weights->units[n],
                     *sum * weights->factors[n]);
        }
      }
    }
  }
}
#endif
