#pragma once
// What attention on the matrix unit (nvidia.cl, which has the contract) does with the result of a
// segment: it is folded into that of the segments before, kept for another group to fold, or
// written as the output.
#include "attention/blocks.cl"
#include "attention/shape.cl"
#include "attention/turn.cl"
#include "attention/warp.cl"
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

// Folds the partial results of a tile's segments, and writes its outputs. So many vectors of a
// work-item, and segments, are read at the same time, because each read takes as long. More take
// registers, which limit how many warps of short codes share a multiprocessor.
#define FOLD_VECTORS (GROUP_ITEMS < 128 && KEY_BITS == 8 ? 4 : 1)
#define FOLD_SEGMENTS (FOLD_VECTORS > 1 ? 2 : 7)
MR_GROUP_INLINE void mr_fold_tile(__global float* partials, const MatrixUnit* unit,
                                  uint set, uint segments, __global const float* sinks,
                                  const Outputs* outputs, __local float* turned, uint item) {
  const uint rows = unit->tokens * GROUP, vectors = rows * (HEAD_DIM / 4);
  for (uint first = item; first < vectors; first += FOLD_VECTORS * GROUP_ITEMS) {
    float4 total[FOLD_VECTORS];
    float top[FOLD_VECTORS], mass[FOLD_VECTORS];
    MR_UNIT_EACH(v, FOLD_VECTORS) {
      total[v] = (float4)(0.0f);
      top[v] = -INFINITY;
      mass[v] = 0.0f;
    }
    for (uint begin = 0; begin < segments; begin += FOLD_SEGMENTS) {
      float4 a[FOLD_SEGMENTS][FOLD_VECTORS];
      float2 m_and_l[FOLD_SEGMENTS][FOLD_VECTORS];
      MR_UNIT_EACH(j, FOLD_SEGMENTS) {
        MR_UNIT_EACH(v, FOLD_VECTORS) {
          const uint i = first + v * GROUP_ITEMS;
          a[j][v] = (float4)(0.0f);
          m_and_l[j][v] = (float2)(-INFINITY, 0.0f);  // which changes no result
          if (begin + j < segments && i < vectors) {
            __global const float* record =
                mr_partial(partials, unit, set, begin + j, i / (HEAD_DIM / 4));
            a[j][v] = *(__global const float4*)(record + i % (HEAD_DIM / 4) * 4);
            m_and_l[j][v] = *(__global const float2*)(record + HEAD_DIM);
          }
        }
      }
      MR_UNIT_EACH(j, FOLD_SEGMENTS) {
        MR_UNIT_EACH(v, FOLD_VECTORS) {
          const float2 factors = mr_factors(&top[v], m_and_l[j][v].x);
          total[v] = fma(total[v], (float4)(factors.x), a[j][v] * (float4)(factors.y));
          mass[v] = mr_folded(mass[v], m_and_l[j][v].y, factors);
        }
      }
    }
    MR_UNIT_EACH(v, FOLD_VECTORS) {
      const uint i = first + v * GROUP_ITEMS, row = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
      if (i < vectors) {
        const uint head = set * GROUP + row % GROUP;
        const Output to = mr_output_of(outputs, unit->token + row / GROUP, head,
                                       mr_inverse(top[v], mass[v], sinks, head));
        mr_put_output(&to, turned + row * HEAD_DIM, d, total[v].x, total[v].y);
        mr_put_output(&to, turned + row * HEAD_DIM, d + 2, total[v].z, total[v].w);
      }
    }
  }
}

// Of a tile that is cut, counts a unit whose partial results are written, and returns whether it is
// the last one, which folds all.
MR_GROUP_INLINE int mr_end_cut(__global float* partials, volatile __global uint* counters,
                               const MatrixUnit* unit, uint set, uint segments,
                               __global const float* sinks, const Outputs* outputs,
                               __local float* turned, __local uint* arrived, uint item) {
  volatile __global uint* counter = counters + unit->counter * HEAD_SETS + set;
  MR_PUBLISH();
  MR_GROUP_BARRIER();
  if (item == 0) arrived[0] = atomic_inc(counter);
  MR_GROUP_BARRIER();
  if (arrived[0] + 1 != unit->parts) return 0;
  MR_PUBLISH();
  mr_fold_tile(partials, unit, set, segments, sinks, outputs, turned, item);
  if (item == 0) *counter = 0;
  return 1;
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
