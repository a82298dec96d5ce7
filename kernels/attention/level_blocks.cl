#pragma once
// Blocks of packed codes for attention on the matrix unit in integers (nvidia_levels.cl, which has
// the contract). Keys and, of values, channels are the 16 rows of an instruction, so that a block's
// codes are expanded once for all rows of a warp, and fill the instruction however few these are.
//
// Its columns are digits of a row's integers: n = 256 * high + low, both signed bytes. Column 2t of
// tile n is the high digit of row 4n + t, column 2t + 1 the low one; so lane 4g + t of a warp has
// the sums of row 4n + t. Of 32 keys it has the scores of 4g to 4g + 3, and of values the channels
// 4g to 4g + 3 of every 32. A block is several such halves, so that fewer sums become floats.
//
// Sums begin with the bits of a float that, counted up, are those of the float plus the sum, and of
// high digits plus 256 times the sum, so that subtractions make them floats. Sums stay within 2^22:
// of levels because HEAD_DIM is at most 256, of codes of 8 bits because groups have at most 128
// channels.
#include "attention/blocks.cl"
#include "attention/level_operands.cl"
#include "attention/level_queries.cl"
#include "attention/warp.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#if LEVELS
#define VALUE_BIASES (VALUE_KIND == KV_AFFINE ? VALUE_SETS : 0)

// What a lane has of its rows' sums, relative to 2^m.
typedef struct {
  float a[ROW_TILES][LEVEL_CHUNKS][4], l[ROW_TILES], m[ROW_TILES];
#if VALUE_KIND == KV_AFFINE
  float b[ROW_TILES][VALUE_BIASES];  // of weights times biases
#endif
} LevelSums;

MR_GROUP_INLINE void mr_clear_levels(LevelSums* sums) {
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_UNIT_EACH(k, LEVEL_CHUNKS) MR_EACH(i, 4) sums->a[n][k][i] = 0.0f;
    sums->l[n] = 0.0f;
    sums->m[n] = -INFINITY;
#if VALUE_KIND == KV_AFFINE
    MR_UNIT_EACH(set, VALUE_BIASES) sums->b[n][set] = 0.0f;
#endif
  }
}

// Bytes of 8 bits have no sign, others do.
#if KEY_BITS == 8
#define mr_mma_keys mr_mma_codes
#else
#define mr_mma_keys mr_mma_bytes
#endif
#if VALUE_BITS == 8
#define mr_mma_values mr_mma_codes
#else
#define mr_mma_values mr_mma_bytes
#endif

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

// Makes scores of a tile's sums over a set of channels, of two keys of each row; those of affine
// keys still lack their unit.
MR_GROUP_INLINE void mr_score_set(float s[ROW_TILES][4 * HALVES], int sums[ROW_TILES][4],
                                  int less[ROW_TILES][4], __local const float* row_floats,
                                  const float* scales, const float* biases, uint key, uint set,
                                  uint lane) {
  MR_UNIT_EACH(n, ROW_TILES) {
    __local const float* floats = row_floats + (4 * n + lane % 4) * QUERY_FLOATS;
    MR_EACH(e, 2) {
      float* score = &s[n][key + e];
      const float counted = mr_counted(sums[n], less[n], e, KEYS_LOW);
#if KEY_KIND == KV_AFFINE
      *score = fma(counted, scales[key % 4 + e],
                   fma(floats[1 + set], biases[key % 4 + e], set == 0 ? 0.0f : *score));
#else
      *score = counted * floats[0] * scales[key % 4 + e];
#endif
    }
  }
}

// The scores of keys 4g to 4g + 3 of each half of a block.
MR_GROUP_INLINE void mr_level_scores(float s[ROW_TILES][4 * HALVES], LevelQueries q,
                                     __local const float* row_floats, const LevelBlock* block,
                                     uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(part, HALVES) {
    MR_UNIT_EACH(set, KEY_SETS) {
      float scales[4], biases[4];  // or norms
      mr_key_parameter(scales, block, part, KEY_KIND == KV_AFFINE ? 2 * set : 0, lane);
      if (KEY_KIND == KV_AFFINE) mr_key_parameter(biases, block, part, 2 * set + 1, lane);
      MR_UNIT_EACH(tile, 2) {
        int sums[ROW_TILES][4], less[ROW_TILES][4];
        MR_UNIT_EACH(n, ROW_TILES) {
          mr_begin_sums(sums[n]);
          mr_begin_sums(less[n]);
        }
        MR_UNIT_EACH(i, KEY_SET_CHUNKS) {
          const uint c = set * KEY_SET_CHUNKS + i;
          Levels a;
          mr_key_operand(&a, block, part, tile, c, lane);
          MR_UNIT_EACH(n, ROW_TILES) {
            uint b[2];
            mr_level_query(b, q, c, n, lane);
            mr_mma_keys(sums[n], a.high, b);
            if (KEYS_LOW) mr_mma_bytes(less[n], a.low, b);
          }
        }
        mr_score_set(s, sums, less, row_floats, scales, biases, 4 * part + 2 * tile, set, lane);
      }
    }
  }
#if KEY_KIND == KV_AFFINE
  MR_UNIT_EACH(n, ROW_TILES) {
    const float unit = row_floats[(4 * n + lane % 4) * QUERY_FLOATS];
    MR_EACH(i, 4 * HALVES) s[n][i] = s[n][i] * unit;
  }
#endif
}

// What becomes of the sums before a block, and of the block's, relative to the larger of both m.
typedef struct {
  float before[ROW_TILES], own[ROW_TILES];
} BlockFactors;

// Makes weights of scores, in their place, and adds them up.
MR_GROUP_INLINE void mr_level_weights(float s[ROW_TILES][4 * HALVES], BlockFactors* factors,
                                      LevelSums* sums MR_QUAD_PARAMETER) {
  MR_UNIT_EACH(n, ROW_TILES) {
    float top = -INFINITY;
    MR_EACH(i, 4 * HALVES) top = fmax(top, s[n][i]);
    MR_UNIT_EACH(i, 3) top = fmax(top, as_float(mr_other(as_uint(top), 4 << i)));
    const float own = top == -INFINITY ? 0.0f : top;
    MR_UNIT_EACH(i, 4 * HALVES) s[n][i] = mr_power(s[n][i] - own);
    const float before = sums->m[n];
    sums->m[n] = fmax(before, top);
    const float from = sums->m[n] == -INFINITY ? 0.0f : sums->m[n];
    factors->before[n] = mr_power(before - from);
    factors->own[n] = mr_power(top - from);
    float mass = 0.0f;
    MR_EACH(part, HALVES) {
      const float* of = s[n] + 4 * part;
      mass = part == 0 ? (of[0] + of[1]) + (of[2] + of[3])
                       : mass + ((of[0] + of[1]) + (of[2] + of[3]));
    }
    sums->l[n] = fma(mass, factors->own[n], sums->l[n] * factors->before[n]);
  }
}

#if VALUE_KIND == KV_AFFINE
MR_GROUP_INLINE void mr_add_biases(LevelSums* sums, float w[ROW_TILES][4 * HALVES],
                                   const BlockFactors* factors, const LevelBlock* block,
                                   const Source* source, uint lane) {
  MR_UNIT_EACH(set, VALUE_BIASES) {
    float biases[4 * HALVES];
    mr_value_parameter(biases, block, source, 2 * set + 1, lane);
    MR_UNIT_EACH(n, ROW_TILES) {
      float own = w[n][0] * biases[0];
      MR_EACH(i, 4 * HALVES - 1) own = fma(w[n][i + 1], biases[i + 1], own);
      sums->b[n][set] = fma(own, factors->own[n], sums->b[n][set] * factors->before[n]);
    }
  }
}
#endif

// Weights of values times the scales of some sets or their norms: operands b, and their units.
#define SETS_AT_ONCE (LONE ? VALUE_SETS : 1)
typedef struct {
  uint b[SETS_AT_ONCE][ROW_TILES][HALVES][2];
  float units[SETS_AT_ONCE][ROW_TILES];
} LevelWeights;

// Words of a warp: [set][row tile][column][half][8], four positions each.
#define WEIGHT_WORDS (SETS_AT_ONCE * ROW_TILES * 64 * HALVES)
#define WEIGHT_AT(set, n, column, part) \
  (((((set) * ROW_TILES + (n)) * 8 + (column)) * HALVES + (part)) * 8)

// Those of the sets from `first` on.
MR_GROUP_INLINE void mr_scale_weights(LevelWeights* to, float w[ROW_TILES][4 * HALVES],
                                      const BlockFactors* factors, const LevelBlock* block,
                                      const Source* source, uint first, __local uint* memory,
                                      uint lane MR_QUAD_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  MR_WARP_BARRIER();  // all have read those before
  MR_UNIT_EACH(set, SETS_AT_ONCE) {
    float scales[4 * HALVES];
    mr_value_parameter(scales, block, source, (VALUE_KIND == KV_AFFINE ? 2 : 1) * (first + set),
                       lane);
    MR_UNIT_EACH(n, ROW_TILES) {
      float scaled[4 * HALVES];
      uint size = 0;
      MR_EACH(i, 4 * HALVES) {
        scaled[i] = w[n][i] * scales[i];
        size = max(size, as_uint(scaled[i]));  // no scale and no norm is negative
      }
      MR_UNIT_EACH(i, 3) size = max(size, mr_other(size, 4 << i));
      float inverse;
      to->units[set][n] = mr_unit_of(size, &inverse) * factors->own[n];
      MR_EACH(part, HALVES) {
        uint high, low;
        mr_digits(&high, &low, scaled + 4 * part, inverse);
        memory[WEIGHT_AT(set, n, 2 * t, part) + g] = high;
        memory[WEIGHT_AT(set, n, 2 * t + 1, part) + g] = low;
      }
    }
  }
  MR_WARP_BARRIER();
  MR_UNIT_EACH(set, SETS_AT_ONCE) {
    MR_UNIT_EACH(n, ROW_TILES) {
      MR_EACH(part, HALVES) {
        __local const uint* words = memory + WEIGHT_AT(set, n, g, part);
        const uint quad = words[VALUE_QUAD(t, 0)], other = words[VALUE_QUAD(t, 1)];
        uint* b = to->b[set][n][part];
#if VALUE_KIND == KV_AFFINE
        b[0] = quad;
        b[1] = other;
#else
        b[0] = mr_permute(quad, other, 0x5140);
        b[1] = mr_permute(quad, other, 0x7362);
#endif
      }
    }
  }
}

// Adds 32 channels of a block's values, times the weights of set `set` of those at once, to the
// sums times their factors.
MR_GROUP_INLINE void mr_add_chunk(LevelSums* sums, const LevelWeights* weights,
                                  const BlockFactors* factors, const LevelBlock* block, uint set,
                                  uint k, uint lane MR_MMA_PARAMETER) {
  uint nibbles[HALVES][4];
#if LONE && VALUE_BITS < 8
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
      mr_value_levels(&a, block->values + part * (2 * VALUE_STORED), nibbles[part], k, tile, lane);
#else
      mr_value_operand(&a, block, part, tile, k, lane);
#endif
      MR_UNIT_EACH(n, ROW_TILES) {
        mr_mma_values(counts[n], a.high, weights->b[set][n][part]);
        if (VALUES_LOW) mr_mma_bytes(less[n], a.low, weights->b[set][n][part]);
      }
    }
    MR_UNIT_EACH(n, ROW_TILES) {
      MR_EACH(e, 2) {
        float* sum = &sums->a[n][k][2 * tile + e];
        *sum = fma(mr_counted(counts[n], less[n], e, VALUES_LOW), weights->units[set][n],
                   *sum * factors->before[n]);
      }
    }
  }
}

// Adds a block's values, times weights w.
MR_GROUP_INLINE void mr_add_levels(LevelSums* sums, float w[ROW_TILES][4 * HALVES],
                                   const BlockFactors* factors, const LevelBlock* block,
                                   const Source* source, __local uint* memory,
                                   uint lane MR_QUAD_PARAMETER MR_MMA_PARAMETER) {
#if VALUE_KIND == KV_AFFINE
  mr_add_biases(sums, w, factors, block, source, lane);
#endif
  MR_UNIT_EACH(step, VALUE_SETS / SETS_AT_ONCE) {
    const uint first = step * SETS_AT_ONCE;
    LevelWeights weights;
    mr_scale_weights(&weights, w, factors, block, source, first, memory, lane MR_QUAD_ARGUMENT);
    MR_UNIT_EACH(set, SETS_AT_ONCE) {
      MR_UNIT_EACH(i, VALUE_SET_CHUNKS) {
        mr_add_chunk(sums, &weights, factors, block, set, (first + set) * VALUE_SET_CHUNKS + i,
                     lane MR_MMA_ARGUMENT);
      }
    }
  }
}
#endif
