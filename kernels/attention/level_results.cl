#pragma once
// The rows of a warp of attention in integers (nvidia_levels.cl), and what becomes of the results
// of their segments, as results.cl has it.
#include "attention/level_blocks.cl"
#include "attention/results.cl"
#include "attention/shape.cl"
#include "attention/warp.cl"
#include "common/prelude.cl"
#include "step/table.cl"

#if LEVELS
// A lane's rows, 4n + t of the warp's: their tokens, and what they see.
typedef struct {
  int exists[ROW_TILES];
  uint row[ROW_TILES];  // of the tile
  uint token[ROW_TILES], head[ROW_TILES], position[ROW_TILES], seen[ROW_TILES];
  uint sees_from, sees_to;  // what all rows of the warp see
  uint any_from, any_to;    // what any row sees; nothing if the warp has none
} LevelRows;

MR_GROUP_INLINE void mr_level_rows(LevelRows* own, const MatrixUnit* unit, uint set, uint warp,
                                   uint t) {
  const uint first = warp * LEVEL_TOKENS, begin = unit->position + first;
  MR_UNIT_EACH(n, ROW_TILES) {
    const uint row = 4 * n + t, offset = first + row / GROUP;
    own->exists[n] = row < LEVEL_ROWS && offset < unit->tokens;
    own->row[n] = warp * LEVEL_ROWS + row;
    own->token[n] = unit->token + offset;
    own->head[n] = set * GROUP + row % GROUP;
    own->position[n] = unit->position + offset;
    own->seen[n] = mr_first_seen(unit->position + offset);
  }
  const uint last = unit->position + min(first + LEVEL_TOKENS, unit->tokens) - 1;
  own->sees_from = mr_first_seen(last);
  own->sees_to = begin;
  own->any_from = first < unit->tokens ? mr_first_seen(begin) : ~0u;
  own->any_to = last;
}

// Caps the scores of a block, and hides what the rows do not see.
MR_GROUP_INLINE void mr_mask_levels(float s[ROW_TILES][4 * HALVES], const LevelRows* own,
                                    uint block, uint g) {
#ifdef SOFT_CAP
  MR_UNIT_EACH(n, ROW_TILES) MR_EACH(i, 4 * HALVES) s[n][i] = mr_capped(s[n][i]) * MR_LOG2_E;
#endif
  const uint first = block * KEY_BLOCK;
  if (first >= own->sees_from && first + KEY_BLOCK - 1 <= own->sees_to) return;
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_EACH(i, 4 * HALVES) {
      const uint key = first + i / 4 * 32 + 4 * g + i % 4;
      if (key > own->position[n] || key < own->seen[n]) s[n][i] = -INFINITY;
    }
  }
}

// Adds up what the lanes of a row have of its weights, at the end of a segment, and adds the biases
// of values to their channels.
MR_GROUP_INLINE void mr_end_levels(LevelSums* sums MR_QUAD_PARAMETER) {
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_UNIT_EACH(i, 3) sums->l[n] = sums->l[n] + as_float(mr_other(as_uint(sums->l[n]), 4 << i));
#if VALUE_KIND == KV_AFFINE
    MR_UNIT_EACH(set, VALUE_BIASES) {
      float bias = sums->b[n][set];
      MR_UNIT_EACH(i, 3) bias = bias + as_float(mr_other(as_uint(bias), 4 << i));
      MR_UNIT_EACH(i, VALUE_SET_CHUNKS) {
        float* a = sums->a[n][set * VALUE_SET_CHUNKS + i];
        MR_EACH(channel, 4) a[channel] = a[channel] + bias;
      }
    }
#endif
  }
}

MR_GROUP_INLINE void mr_put_level_partials(__global float* partials, const MatrixUnit* unit,
                                           const LevelRows* own, const LevelSums* sums, uint set,
                                           uint segment, uint g) {
  MR_UNIT_EACH(n, ROW_TILES) {
    if (own->exists[n]) {
      __global float* record = mr_partial(partials, unit, set, segment, own->row[n]);
      MR_UNIT_EACH(k, LEVEL_CHUNKS) {
        const float* a = sums->a[n][k];
        *(__global float4*)(record + 32 * k + 4 * g) = (float4)(a[0], a[1], a[2], a[3]);
      }
      if (g == 0) *(__global float2*)(record + HEAD_DIM) = (float2)(sums->m[n], sums->l[n]);
    }
  }
}

// Writes the outputs of a lane's rows, still in the values' rotation.
MR_GROUP_INLINE void mr_put_level_outputs(const Outputs* outputs, const LevelRows* own,
                                          const LevelSums* sums, __global const float* sinks,
                                          __local float* turned, uint g) {
  MR_UNIT_EACH(n, ROW_TILES) {
    if (own->exists[n]) {
      const Output to = mr_output_of(outputs, own->token[n], own->head[n],
                                     mr_inverse(sums->m[n], sums->l[n], sinks, own->head[n]));
      __local float* row = turned + own->row[n] * HEAD_DIM;
      MR_UNIT_EACH(k, LEVEL_CHUNKS) {
        const float* a = sums->a[n][k];
        mr_put_output(&to, row, 32 * k + 4 * g, a[0], a[1]);
        mr_put_output(&to, row, 32 * k + 4 * g + 2, a[2], a[3]);
      }
    }
  }
}

// The result of the segments before: the sums in local memory, 32 floats apart.
typedef struct {
  __local float* a;
  float l[ROW_TILES], m[ROW_TILES];
} LevelsBefore;

#define LEVEL_KEPT(n, k, i) ((((n) * LEVEL_CHUNKS + (k)) * 4 + (i)) * 32)
MR_GROUP_INLINE void mr_keep_levels(LevelsBefore* before, const LevelSums* sums) {
  MR_UNIT_EACH(n, ROW_TILES) {
    MR_UNIT_EACH(k, LEVEL_CHUNKS) {
      MR_EACH(i, 4) before->a[LEVEL_KEPT(n, k, i)] = sums->a[n][k][i];
    }
    before->l[n] = sums->l[n];
    before->m[n] = sums->m[n];
  }
}
MR_GROUP_INLINE void mr_fold_levels(const LevelsBefore* before, LevelSums* sums) {
  MR_UNIT_EACH(n, ROW_TILES) {
    float top = before->m[n];
    const float2 factors = mr_factors(&top, sums->m[n]);
    sums->m[n] = top;
    sums->l[n] = mr_folded(before->l[n], sums->l[n], factors);
    MR_UNIT_EACH(k, LEVEL_CHUNKS) {
      MR_EACH(i, 4) {
        sums->a[n][k][i] =
            mr_folded(before->a[LEVEL_KEPT(n, k, i)], sums->a[n][k][i], factors);
      }
    }
  }
}
#endif
