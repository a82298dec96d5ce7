#pragma once
// What attention on the matrix unit (nvidia.cl, which has the contract) does with the result of a
// segment: it is folded into that of the segments before, kept for another group to fold, or
// written as the output.
#include "attention/blocks.cl"
#include "attention/shape.cl"
#include "attention/turn.cl"
#include "attention/warp.cl"
#include "attention/weights.cl"
#include "common/halves.cl"
#include "common/math.cl"
#include "quantize/code_block.h"
#include "step/table.cl"

// The powers by which sums relative to `top` and to m count relative to the larger, which replaces
// top. Both are 0 where nothing has been seen yet.
static inline float2 mr_factors(float* top, float m) {
  const float merged = fmax(*top, m), from = merged == -INFINITY ? 0.0f : merged;
  const float2 factors = (float2)(mr_power(*top - from), mr_power(m - from));
  *top = merged;
  return factors;
}
static inline float mr_folded(float total, float a, float2 factors) {
  return fma(total, factors.x, a * factors.y);
}

// Where a head's output begins, and by what its sums are multiplied.
typedef struct {
  __global float* out;
  __global ushort* codes;
  uint token, channel, code_vectors;
  float inverse;
} Output;

// l is relative to `top`, and so is the sink's part.
static inline float mr_inverse(float top, float l, __global const float* sinks, uint head) {
#if SINKS
  const float sink = sinks[head] * MR_LOG2_E;
  const float2 f = mr_factors(&top, sink);
  return f.x * mr_recip(fma(l, f.x, f.y));
#else
  return mr_recip(l);
#endif
}

static inline void mr_write(const Output* to, uint d, float x, float y) {
  if (to->out != 0) *(__global float2*)(to->out + d) = (float2)(x, y);
  if (to->codes != 0) {
    const uint channel = to->channel + d;
    const size_t vector = H_VECTOR_AT((size_t)to->token, channel / 8, to->code_vectors);
    ((__global uint*)to->codes)[vector * 4 + channel % 8 / 2] = mr_halves(x * H_SCALE, y * H_SCALE);
  }
}

// Writes two neighbours of a head's channels, from the even channel d on; of rotated values, to
// `turned`, which has the row's channels. Zeros are positive, whichever segments were folded.
MR_GROUP_INLINE void mr_put_output(const Output* to, __local float* turned, uint d, float x,
                                   float y) {
  x = fma(x, to->inverse, 0.0f);
  y = fma(y, to->inverse, 0.0f);
#if VALUE_KIND == KV_ROTATED
  turned[d] = x;
  turned[d + 1] = y;
#else
  mr_write(to, d, x, y);
#endif
}
// Where the outputs of a launch go.
typedef struct {
  __global float* out;
  __global ushort* codes;
  uint out_stride, code_stride;
} Outputs;

static inline Output mr_output_of(const Outputs* all, uint token, uint head, float inverse) {
  const Output to = {
      all->out == 0 ? 0 : all->out + (size_t)token * all->out_stride + head * HEAD_DIM,
      all->codes,
      token,
      head * HEAD_DIM,
      all->code_stride / 4,
      inverse};
  return to;
}

// The partial result of a tile's row in one of the tile's segments.
MR_GROUP_INLINE __global float* mr_partial(__global float* partials,
                                           const MatrixUnit* unit, uint set, uint segment,
                                           uint row) {
  const uint rows = unit->tokens * GROUP;
  const size_t index = (size_t)(unit->partial + segment * rows + row) * HEAD_SETS + set;
  return partials + index * MATRIX_PARTIAL_FLOATS(HEAD_DIM);
}

// Folds the partial results of a tile's segments, and writes its outputs.
MR_GROUP_INLINE void mr_fold_tile(__global float* partials, const MatrixUnit* unit,
                                  uint set, uint segments, __global const float* sinks,
                                  const Outputs* outputs, __local float* turned, uint item) {
  const uint rows = unit->tokens * GROUP;
  for (uint i = item; i < rows * (HEAD_DIM / 4); i += GROUP_ITEMS) {
    const uint row = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
    float4 total = (float4)(0.0f);
    float top = -INFINITY, mass = 0.0f;
    _Pragma("unroll 4") for (uint segment = 0; segment < segments; ++segment) {
      __global const float* record = mr_partial(partials, unit, set, segment, row);
      const float4 a = *(__global const float4*)(record + d);
      const float2 m_and_l = *(__global const float2*)(record + HEAD_DIM);
      const float2 factors = mr_factors(&top, m_and_l.x);
      total = fma(total, (float4)(factors.x), a * (float4)(factors.y));
      mass = mr_folded(mass, m_and_l.y, factors);
    }
    const uint head = set * GROUP + row % GROUP;
    const Output to =
        mr_output_of(outputs, unit->token + row / GROUP, head, mr_inverse(top, mass, sinks, head));
    mr_put_output(&to, turned + row * HEAD_DIM, d, total.x, total.y);
    mr_put_output(&to, turned + row * HEAD_DIM, d + 2, total.z, total.w);
  }
}

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
                                    __global const float* sinks, __local float* turned,
                                    uint first, uint t) {
  MR_EACH(r, 2) {
    if (own->exists[r]) {
      const Output to = mr_output_of(outputs, own->token[r], own->head[r],
                                     mr_inverse(sums->m[r], sums->l[2 * r], sinks, own->head[r]));
      MR_UNIT_EACH(n, 2 * OWN_CHUNKS) {
        const uint at = 2 * first + n;
        if (MR_EXISTING(at)) {
          mr_put_output(&to, turned + own->row[r] * HEAD_DIM, 8 * at + 2 * t, sums->a[n][2 * r],
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

#if VALUE_KIND == KV_ROTATED
// Rotates the outputs of a tile back, and writes them.
MR_GROUP_INLINE void mr_turn_back(__local float* turned, const MatrixUnit* unit, uint set,
                                  const Outputs* outputs, uint item) {
  const uint rows = unit->tokens * GROUP;
  mr_turn_rows(turned, rows, item, GROUP_ITEMS);
  for (uint i = item; i < rows * (HEAD_DIM / 2); i += GROUP_ITEMS) {
    const uint row = i / (HEAD_DIM / 2), d = i % (HEAD_DIM / 2) * 2;
    const Output to = mr_output_of(outputs, unit->token + row / GROUP, set * GROUP + row % GROUP,
                                   VALUE_STEP / HEAD_DIM);
    const float x = mr_flipped(turned[row * HEAD_DIM + d], mr_signs_value, d);
    const float y = mr_flipped(turned[row * HEAD_DIM + d + 1], mr_signs_value, d + 1);
    mr_write(&to, d, x * to.inverse, y * to.inverse);
  }
}
#endif
