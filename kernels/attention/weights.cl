#pragma once
// The rows of a warp of attention on the matrix unit (nvidia.cl, which has the contract): their
// queries, what they see, and the weights of a block's keys.
#include "attention/blocks.cl"
#include "attention/shape.cl"
#include "attention/warp.cl"
#include "common/halves.cl"
#include "common/prelude.cl"
#include "matmul/mma.cl"
#include "step/table.cl"

// Weights are multiplied by 2^WEIGHT_LOG2, so that those far below the largest are normal halves.
// The largest may be 16 times as large where a score has no bit for that much.
#define WEIGHT_LOG2 11.0f

#define WARP_TOKENS (MATRIX_ROWS / GROUP)
#define WARP_HEADS (WARP_TOKENS * GROUP)  // rows of a warp that exist

// The rows of a lane, g and g + 8 of the warp's: their tokens, and what they see.
typedef struct {
  int exists[2];
  uint token[2], head[2], position[2], seen[2];
  uint row[2];              // of the tile
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
  const uint last = unit->position + min(first + WARP_TOKENS, unit->tokens) - 1;
  own->sees_from = mr_first_seen(last);
  own->sees_to = begin;
  own->any_from = first < unit->tokens ? mr_first_seen(begin) : ~0u;
  own->any_to = last;
}

// Channels 16c + 2t and the next of a lane's two rows, then those 8 further, as operand a.
MR_GROUP_INLINE void mr_load_query(uint* words, __global const float* const* query,
                                   const int* exists, uint c, uint t, float scale) {
  MR_EACH(i, 4) {
    const uint at = 16 * c + i / 2 * 8 + 2 * t;
    words[i] = 0;
    if (exists[i % 2]) {
      const float2 x = *(__global const float2*)(query[i % 2] + at);
      words[i] = mr_halves(x.x * scale, x.y * scale);
    }
  }
}

// Caps the scores of a block, and hides what the rows do not see.
MR_GROUP_INLINE void mr_mask(float s[KEY_TILES][4], const Rows* own, uint block, uint t) {
#ifdef SOFT_CAP
  MR_UNIT_EACH(n, KEY_TILES) MR_EACH(i, 4) s[n][i] = mr_capped(s[n][i]) * MR_LOG2_E;
#endif
  const uint first = block * MATRIX_BLOCK;
  if (first >= own->sees_from && first + MATRIX_BLOCK - 1 <= own->sees_to) return;
  MR_UNIT_EACH(n, KEY_TILES) {
    MR_EACH(i, 4) {
      const uint key = first + KEY_OF(n, t, i % 2);
      if (key > own->position[i / 2] || key < own->seen[i / 2]) s[n][i] = -INFINITY;
    }
  }
}

// Makes weights of a block's scores, as operand a, and multiplies the sums before by f. m[r] is the
// largest score so far less WEIGHT_LOG2.
MR_GROUP_INLINE void mr_weights(uint w[BLOCK_PAGES][4], float s[KEY_TILES][4], float* m, float* l,
                                float a[2 * OWN_CHUNKS][4] MR_QUAD_PARAMETER) {
  MR_EACH(r, 2) {
    float top = -INFINITY;
    MR_UNIT_EACH(n, KEY_TILES) top = fmax(top, fmax(s[n][2 * r], s[n][2 * r + 1]));
    const float before = m[r];
    m[r] = fmax(before, mr_quad_max(top) - WEIGHT_LOG2);
    const float from = m[r] == -INFINITY ? 0.0f : m[r];
    const float f = mr_power(before - from);
    MR_UNIT_EACH(n, KEY_TILES) {
      MR_EACH(i, 2) s[n][2 * r + i] = mr_power(s[n][2 * r + i] - from);
    }
    MR_UNIT_EACH(n, 2 * OWN_CHUNKS) MR_EACH(i, 2) a[n][2 * r + i] = a[n][2 * r + i] * f;
    MR_EACH(i, 2) l[2 * r + i] = l[2 * r + i] * f;
  }
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    MR_EACH(i, 4) {
      const float* pair = &s[2 * page + i / 2][i % 2 * 2];
      w[page][i] = mr_halves(pair[0], pair[1]);
    }
  }
}
