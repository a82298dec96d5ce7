#pragma once
// What becomes of the result of a segment of attention over halves (nvidia.cl), as results.cl has
// it.
#include "attention/blocks.cl"
#include "attention/half_blocks.cl"
#include "attention/results.cl"
#include "attention/weights.cl"
#include "common/prelude.cl"
#include "step/table.cl"

// Whether a lane's sums a[n], of the eight channels from 8 * at on, exist.
#define MR_EXISTING(at) (!SHARED_ROWS || CHUNKS % GROUP_WARPS == 0 || (at) < 2 * CHUNKS)

// Keeps row r of a lane, whose chunks begin with `first`, as a partial result.
MR_GROUP_INLINE void mr_put_partial(__global float* record, const Sums* sums, uint r, uint first,
                                    uint t) {
  MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
    const uint at = 2 * first + n;
    if (MR_EXISTING(at)) {
      const float* pair = &sums->a[n][2 * r];
      *(__global float2*)(record + 8 * at + 2 * t) = (float2)(pair[0], pair[1]);
    }
  }
  if (first == 0 && t == 0) {
    *(__global float2*)(record + HEAD_DIM) = (float2)(sums->m[r], sums->l[2 * r]);
  }
}

MR_GROUP_INLINE void mr_put_partials(__global float* partials, const MatrixUnit* unit,
                                     const Rows* own, const Sums* sums, uint set, uint segment,
                                     uint first, uint t) {
  MR_EACH(r, 2) {
    if (own->exists[r]) {
      mr_put_partial(mr_partial(partials, unit, set, segment, own->row[r]), sums, r, first, t);
    }
  }
}

// Writes the outputs of a lane's rows.
MR_GROUP_INLINE void mr_put_outputs(const Outputs* outputs, const Rows* own, const Sums* sums,
                                    __global const float* sinks, uint first, uint t) {
  MR_EACH(r, 2) {
    if (own->exists[r]) {
      const Output to = mr_output_of(outputs, own->token[r], own->head[r],
                                     mr_inverse(sums->m[r], sums->l[2 * r], sinks, own->head[r]));
      MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
        const uint at = 2 * first + n;
        if (MR_EXISTING(at)) {
          mr_put_output(&to, 0, 8 * at + 2 * t, sums->a[n][2 * r],
                        sums->a[n][2 * r + 1]);
        }
      }
    }
  }
}

// The result of the segments before: the sums in local memory, 32 floats apart.
typedef struct {
  __local float* a;
  float l[2], m[2];
} Before;

MR_GROUP_INLINE void mr_keep(Before* before, const Sums* sums) {
  MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
    MR_EACH(i, 4) before->a[(n * 4 + i) * 32] = sums->a[n][i];
  }
  MR_EACH(r, 2) {
    before->l[r] = sums->l[2 * r];
    before->m[r] = sums->m[r];
  }
}
MR_GROUP_INLINE void mr_fold_before(const Before* before, Sums* sums) {
  MR_EACH(r, 2) {
    float top = before->m[r];
    const float2 factors = mr_factors(&top, sums->m[r]);
    sums->m[r] = top;
    sums->l[2 * r] = mr_folded(before->l[r], sums->l[2 * r], factors);
    MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
      MR_EACH(i, 2) {
        const float total = before->a[(n * 4 + 2 * r + i) * 32];
        sums->a[n][2 * r + i] = mr_folded(total, sums->a[n][2 * r + i], factors);
      }
    }
  }
}
