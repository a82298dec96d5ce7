#pragma once
// Blocks of packed codes for attention on the matrix unit (nvidia.cl), which become halves in
// registers (operand.cl).
//
// A page's codes and parameters of a side stand in local memory as in a page (kv/planes.cl), the
// parameters behind the codes. Parameters of positions that the sequence does not have yet may be
// NaN: those of keys are hidden with their scores, and those of values are replaced by 0.
#include "attention/blocks.cl"
#include "attention/code_copies.cl"
#include "attention/work.h"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#define KEYS 1
#include "attention/operand.cl"
#undef KEYS
#define KEYS 0
#include "attention/operand.cl"
#undef KEYS

#if PACKED
#define KEY_SETS (HEAD_DIM / KEY_GROUP)
#define VALUE_SETS (HEAD_DIM / VALUE_GROUP)
// So that weights times norms or scales are halves, whatever these are.
#define WEIGHT_LOG2 (VALUE_KIND == KV_ROTATED ? 0.0f : VALUE_BITS == 8 ? 6.0f : 0.0f)

// The channel of a chunk, or the position in a page, of which an operand has element e of pair t
// or, with `later`, t + 4: those whose codes a word has side by side.
#define CODE_ORDER(bits, t, later, e)                             \
  ((bits) == 4 ? 8 * ((t) / 2) + 2 * ((t) % 2) + (later) + 4 * (e) \
               : 4 * (t) + 2 * (later) + (e))
#define KEY_CHANNEL(t, later, e) CODE_ORDER(KEY_BITS, t, later, e)
#define KEY_OF(n, t, i) ((n) / 2 * PAGE_TOKENS + CODE_ORDER(VALUE_BITS, t, (n) % 2, i))

// The sums of a query's channels that share a scale, for a lane's rows, by the unit.
typedef float QuerySums[KEY_SETS][4];
MR_GROUP_INLINE void mr_sum_queries(QuerySums sums, Queries queries, uint lane MR_MMA_PARAMETER) {
  const uint ones[2] = {0x3c003c00, 0x3c003c00};
  MR_UNIT_EACH(set, KEY_SETS) {
    MR_EACH(i, 4) sums[set][i] = 0.0f;
    MR_UNIT_EACH(c, KEY_GROUP / 16) {
      uint q[4];
      mr_query_of(q, queries, set * (KEY_GROUP / 16) + c, lane);
      mr_mma_halves(sums[set], q, ones);
    }
  }
}

// The scores of tile `tile` of a block, eight keys.
MR_GROUP_INLINE void mr_one_tile(float* s, Queries queries, QuerySums query_sums,
                                 __local const uint4* keys, uint tile,
                                 uint lane MR_MMA_PARAMETER) {
  const uint g = lane / 4, t = lane % 4;
  __local const uint* planes = (__local const uint*)(keys + tile / 2 * KEY_STORED);
  __local const ushort* parameters = (__local const ushort*)(planes + 4 * KEY_CODES);
  const uint position = CODE_ORDER(VALUE_BITS, g / 2, tile % 2, g % 2);
  float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  MR_UNIT_EACH(set, KEY_SETS) {
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    MR_UNIT_EACH(c, KEY_GROUP / 16) {
      uint q[4], k[2];
      const uint chunk = set * (KEY_GROUP / 16) + c;
      mr_query_of(q, queries, chunk, lane);
      mr_operand_key(k, planes, chunk, t, position);
      mr_mma_halves(part, q, k);
    }
    MR_EACH(i, 2) {
      const uint slot = CODE_ORDER(VALUE_BITS, t, tile % 2, i);
#if KEY_KIND == KV_ROTATED
      const float norm = mr_from_half(parameters[slot]) * KEY_STEP;
      MR_EACH(r, 2) total[2 * r + i] = part[2 * r + i] * norm;
#else
      const float scale = mr_from_half(parameters[2 * set * PAGE_TOKENS + slot]);
      const float bias = mr_from_half(parameters[(2 * set + 1) * PAGE_TOKENS + slot]);
      MR_EACH(r, 2) {
        total[2 * r + i] = fma(part[2 * r + i], scale,
                               fma(query_sums[set][2 * r], bias, total[2 * r + i]));
      }
#endif
    }
  }
  MR_EACH(i, 4) s[i] = total[i];
}

MR_GROUP_INLINE void mr_all_tiles(float s[KEY_TILES][4], Queries queries, QuerySums query_sums,
                                  __local const uint4* keys, uint lane MR_MMA_PARAMETER) {
  MR_UNIT_EACH(n, KEY_TILES) {
    mr_one_tile(s[n], queries, query_sums, keys, n, lane MR_MMA_ARGUMENT);
  }
}

// The parameter `index` of the value at a slot of a page; 0 for a position that is not there.
MR_GROUP_INLINE uint mr_value_parameter(__local const uint4* values, uint page, uint index,
                                        uint slot, uint count) {
  __local const ushort* parameters =
      (__local const ushort*)(values + page * VALUE_STORED + VALUE_CODES);
  return page * PAGE_TOKENS + slot < count ? parameters[index * PAGE_TOKENS + slot] : 0;
}

// Makes the weights of values with the scales of a set, or with their norms, as operand a; of a
// block's positions there are `count`. `more`: rows from the ninth on exist, too.
MR_GROUP_INLINE void mr_scale_weights(uint w[BLOCK_PAGES][4], float s[KEY_TILES][4],
                                      __local const uint4* values, uint set, uint t, uint count,
                                      int more) {
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    MR_EACH(later, 2) {
      float scale[2];
      MR_EACH(e, 2) {
        scale[e] = mr_from_half(mr_value_parameter(values, page, 2 * set,
                                                   CODE_ORDER(VALUE_BITS, t, later, e), count));
      }
      const float* own = s[2 * page + later];
      w[page][2 * later + 1] = 0;
      MR_EACH(r, 2) {
        if (r == 1 && !more) continue;
        w[page][2 * later + r] = mr_halves(own[2 * r] * scale[0], own[2 * r + 1] * scale[1]);
      }
    }
  }
}

#if BIAS_SETS > 0
// Adds the biases of a set, times the weights w[page].
MR_GROUP_INLINE void mr_add_biases(float* sums, uint w[BLOCK_PAGES][4],
                                   __local const uint4* values, uint set, uint t,
                                   uint count MR_MMA_PARAMETER) {
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    uint words[2];
    MR_EACH(later, 2) {
      words[later] = 0;
      MR_EACH(e, 2) {
        words[later] |= mr_value_parameter(values, page, 2 * set + 1,
                                           CODE_ORDER(VALUE_BITS, t, later, e), count)
                        << (16 * e);
      }
    }
    mr_mma_halves(sums, w[page], words);
  }
}
// Adds the sums of biases to those of channels, at the end of a segment.
MR_GROUP_INLINE void mr_end_biases(Sums* sums) {
  MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
    MR_EACH(i, 4) sums->a[n][i] = sums->a[n][i] + sums->b[n * 8 / VALUE_GROUP][i];
  }
}
#endif

// Adds a block's values, times their weights s, to the sums of the chunks from `first` on, and the
// weights, as halves w[page], to l. Chunks beyond the last are the last: nobody asks for their
// sums.
MR_GROUP_INLINE void mr_add_block(Sums* sums, float s[KEY_TILES][4], uint w[BLOCK_PAGES][4],
                                  __local const uint4* values, uint first, uint count, int more,
                                  uint lane MR_MMA_PARAMETER) {
  const uint ones[2] = {0x3c003c00, 0x3c003c00}, g = lane / 4, t = lane % 4;
  uint scaled[BLOCK_PAGES][4];
  MR_UNIT_EACH(page, BLOCK_PAGES) mr_mma_halves(sums->l, w[page], ones);
  MR_UNIT_EACH(c, OWN_CHUNKS) {
    const uint chunk = min(first + c, (uint)(CHUNKS - 1));
    if (c * 16 % VALUE_GROUP == 0) {
      mr_scale_weights(scaled, s, values, chunk * 16 / VALUE_GROUP, t, count, more);
#if BIAS_SETS > 0
      mr_add_biases(sums->b[c * 16 / VALUE_GROUP], w, values, chunk * 16 / VALUE_GROUP, t,
                    count MR_MMA_ARGUMENT);
#endif
    }
    MR_UNIT_EACH(page, BLOCK_PAGES) {
      __local const uint* planes = (__local const uint*)(values + page * VALUE_STORED);
      MR_UNIT_EACH(side, 2) {
        uint v[2];
        mr_operand_value(v, planes, chunk, t, g + 8 * side);
        mr_mma_halves(sums->a[2 * c + side], scaled[page], v);
      }
    }
  }
}
#endif
