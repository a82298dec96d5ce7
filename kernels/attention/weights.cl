#pragma once
// The rows of a warp of attention on the matrix unit (nvidia.cl, which has the contract): their
// queries, what they see, and the weights of a block's keys.
#include "attention/blocks.cl"
#include "attention/half_blocks.cl"
#include "attention/own_token.cl"
#include "attention/shape.cl"
#include "attention/warp.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "matmul/mma.cl"
#include "step/table.cl"

#define WARP_HEADS (WARP_TOKENS * GROUP)  // rows of a warp that exist

// The rows of a lane, g and g + 8 of the warp's: their tokens, and what they see.
typedef struct {
  int exists[2];
  uint token[2], head[2], position[2], seen[2];
  uint row[2];              // of the tile
  int later;                // whether any row of the warp from the ninth on exists
  uint sees_from, sees_to;  // what all rows of the warp see
  uint any_from, any_to;    // what any row sees; nothing if the warp has none
} Rows;

// Those of the tile's warp `warp`.
static inline void mr_rows_of(Rows* own, const MatrixUnit* unit, uint set, uint warp, uint lane) {
  const uint first = warp * WARP_TOKENS, begin = unit->position + first;
  MR_EACH(r, 2) {
    const uint row = lane / 4 + 8 * r, offset = first + row / GROUP;
    own->exists[r] = row < WARP_HEADS && offset < unit->tokens;
    own->token[r] = unit->token + offset;
    own->head[r] = set * GROUP + row % GROUP;
    own->position[r] = unit->position + offset;
    own->seen[r] = mr_first_seen(unit->position + offset);
    own->row[r] = warp * WARP_HEADS + row;
  }
  own->later = first < unit->tokens && min((uint)WARP_TOKENS, unit->tokens - first) * GROUP > 8;
  const uint last = unit->position + min(first + WARP_TOKENS, unit->tokens) - 1;
  own->sees_from = mr_first_seen(last);
  own->sees_to = begin;
  own->any_from = first < unit->tokens ? mr_first_seen(begin) : ~0u;
  own->any_to = last;
}

// The channels of chunk c of a lane's two queries, where they exist, as operand a; with `turned`
// those of an only token (own_token.cl).
MR_GROUP_INLINE void mr_load_query(uint* words, __global const float* const* queries,
                                   const Rows* own, __local const uint* turned, uint c, uint t,
                                   float scale) {
#if OWN_TOKEN
  if (turned != 0) {
    MR_EACH(i, 4) {
      const uint d = 16 * c + KEY_CHANNEL(t, i / 2, 0);
      words[i] = own->exists[i % 2] ? turned[OWN_QUERY_AT(own->row[i % 2], d)] : 0;
    }
    return;
  }
#endif
  MR_EACH(i, 4) {
    const uint d = 16 * c + KEY_CHANNEL(t, i / 2, 0), next = 16 * c + KEY_CHANNEL(t, i / 2, 1);
    words[i] = 0;
    if (own->exists[i % 2]) {
      words[i] = mr_halves(queries[i % 2][d] * scale, queries[i % 2][next] * scale);
    }
  }
}

// All of a lane's part of its warp's queries; warps that share them load some each.
MR_GROUP_INLINE void mr_load_queries(Queries q, __global const float* qkv, const Rows* own,
                                     __local const uint* turned, uint qkv_stride, float scale,
                                     uint warp, uint lane) {
  __global const float* queries[2];
  MR_EACH(r, 2) {
    queries[r] = qkv + (size_t)own->token[r] * qkv_stride + own->head[r] * HEAD_DIM;
  }
#if LOCAL_QUERIES
  for (uint c = SHARED_ROWS ? warp : 0; c < CHUNKS; c += SHARED_ROWS ? GROUP_WARPS : 1) {
    uint words[4];
    mr_load_query(words, queries, own, turned, c, lane % 4, scale);
    q[c * 32 + lane] = (uint4)(words[0], words[1], words[2], words[3]);
  }
#else
  MR_UNIT_EACH(c, CHUNKS) mr_load_query(q[c], queries, own, turned, c, lane % 4, scale);
#endif
}

MR_GROUP_INLINE void mr_clear(Sums* sums) {
  MR_UNIT_EACH(n, 2 * OWN_CHUNKS) MR_EACH(i, 4) sums->a[n][i] = 0.0f;
  MR_EACH(i, 4) sums->l[i] = 0.0f;
  MR_EACH(r, 2) sums->m[r] = -INFINITY;
}

// Whether to compute a lane's rows r: where a branch may not hold a barrier, always.
#define MR_HAS_ROWS(r, later) (!MATRIX_UNIT || (r) == 0 || (later))

// Caps the scores of a block, and hides what the rows do not see.
MR_GROUP_INLINE void mr_mask(float s[KEY_TILES][4], const Rows* own, uint block, uint t) {
#ifdef SOFT_CAP
  MR_UNIT_EACH(n, KEY_TILES) MR_EACH(i, 4) s[n][i] = mr_capped(s[n][i]) * MR_LOG2_E;
#endif
  const uint first = block * KEY_BLOCK;
  if (first >= own->sees_from && first + KEY_BLOCK - 1 <= own->sees_to) return;
  MR_UNIT_EACH(n, KEY_TILES) {
    MR_EACH(i, 4) {
      const uint key = first + KEY_OF(n, t, i % 2);
      if (key > own->position[i / 2] || key < own->seen[i / 2]) s[n][i] = -INFINITY;
    }
  }
}

// Makes weights of a block's scores, also as operand a, and multiplies the sums before by f.
MR_GROUP_INLINE void mr_weights(uint w[BLOCK_PAGES][4], float s[KEY_TILES][4], Sums* sums,
                                int later MR_QUAD_PARAMETER) {
  MR_UNIT_EACH(page, BLOCK_PAGES) MR_EACH(i, 4) w[page][i] = 0;
  MR_EACH(r, 2) {
    if (!MR_HAS_ROWS(r, later)) continue;
    float top = -INFINITY;
    MR_UNIT_EACH(n, KEY_TILES) top = fmax(top, fmax(s[n][2 * r], s[n][2 * r + 1]));
    const float before = sums->m[r];
    sums->m[r] = fmax(before, mr_quad_max(top) - WEIGHT_LOG2);
    const float from = sums->m[r] == -INFINITY ? 0.0f : sums->m[r];
    const float f = mr_power(before - from);
    MR_UNIT_EACH(n, KEY_TILES) {
      MR_EACH(i, 2) s[n][2 * r + i] = mr_power(s[n][2 * r + i] - from);
    }
    MR_UNIT_EACH(n, 2 * OWN_CHUNKS) MR_EACH(i, 2) sums->a[n][2 * r + i] *= f;
    MR_EACH(i, 2) sums->l[2 * r + i] *= f;
    MR_UNIT_EACH(page, BLOCK_PAGES) {
      MR_EACH(second, 2) {
        const float* pair = &s[2 * page + second][2 * r];
        w[page][2 * second + r] = mr_halves(pair[0], pair[1]);
      }
    }
  }
}
