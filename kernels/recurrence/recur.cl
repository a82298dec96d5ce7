// The recurrence of a head over the tokens of a row, with a matrix M of keys by values, the head's
// state. For each token, with its key k, value v, query q, decay d and strength of writing w
// (gates.cl):
//
//   delta net  u = w * (v - d * (M^T k));  M = d * M + k u^T;  out = M^T q
//   Mamba 2    u = w * v;                  M = d * M + k u^T;  out = M^T q + skip[head] * v
//
// A token is computed from the state that the token before it left, whether that was in this
// launch or in another one. So a sequence has the same bits whole, in pieces and token by token.
// A form by chunks, as matrix products, would have other bits and as many multiply-adds: 4 KEY_DIM
// RECUR_VALUE_DIM here, 3 KEY_DIM RECUR_VALUE_DIM + 2 CHUNK KEY_DIM there.
//
//   mixed   float [tokens][stride], after gates.cl
//   gates   float [tokens][2][HEADS_PADDED]
//   skip    float [HEADS_PADDED]; not read in a delta net
//   states  float [places][state_stride], shape.cl; read and written where the row says
//   out     float [tokens][out_stride], RECUR_HEADS * RECUR_VALUE_DIM of each row
//   launch  RECUR_ITEMS work-items for RECUR_VALUES values of a head of a row: groups
//           (RECUR_VALUE_DIM / RECUR_VALUES, RECUR_HEADS, rows). A work-item has vectors of 16
//           values if ROW_ITEMS is 1, else single ones
// Order of sums over keys: four sums, of keys i, i + 4, i + 8, ... by fma; then (0 + 1) + (2 + 3).
// Limit: fp32 multiply-adds for prompts, 4 for each number of the state and token (2 of them for
// Mamba 2 are no sums); the part of a state that a group has stays in the first cache. Memory for
// single tokens, which read and write the state.
#include "common/prelude.cl"
#include "recurrence/shape.cl"

#if ROW_ITEMS == 1
#define RECUR_ITEMS 1
#ifndef RECUR_VALUES
#define RECUR_VALUES 16
#endif
typedef float16 Values;
#define RECUR_VECTORS (RECUR_VALUES / 16)
#define MR_LOAD(p) vload16(0, p)
#define MR_SET(v, p) vstore16(v, 0, p)
#define VECTOR_STEP(w) ((w) * 16)             // from a value to that of the next vector
#define STATE_STEP(w) ((w) * (KEY_DIM * 16))  // the same in a state
#else
#ifndef RECUR_VALUES
#define RECUR_VALUES 16
#endif
#define RECUR_ITEMS RECUR_VALUES
typedef float Values;
#define RECUR_VECTORS 1
#define MR_LOAD(p) (*(p))
#define MR_SET(v, p) (*(p) = (v))
#define VECTOR_STEP(w) 0
#define STATE_STEP(w) 0
#endif

#define MR_VECTORS(w) MR_EACH(w, RECUR_VECTORS)

static inline Values mr_four(const Values* sums) {
  return (sums[0] + sums[RECUR_VECTORS]) + (sums[2 * RECUR_VECTORS] + sums[3 * RECUR_VECTORS]);
}

// Computes the output of one token, with u of its value, and moves the state on from `before`.
static inline void mr_write_and_read(__global const float* before, __global float* m,
                                     __global const float* k, __global const float* q, float decay,
                                     const Values* u, Values* out) {
  Values sums[4 * RECUR_VECTORS];
  MR_EACH(i, 4 * RECUR_VECTORS) sums[i] = (Values)(0.0f);
  for (uint i = 0; i < KEY_DIM; i += 4) {
    MR_EACH(c, 4) MR_VECTORS(w) {
      const uint at = (i + c) * 16 + STATE_STEP(w);
      const Values x = fma((Values)(k[i + c]), u[w], MR_LOAD(before + at) * decay);
      MR_SET(x, m + at);
      sums[c * RECUR_VECTORS + w] = fma((Values)(q[i + c]), x, sums[c * RECUR_VECTORS + w]);
    }
  }
  MR_VECTORS(w) out[w] = mr_four(sums + w);
}

#if DELTA
// Computes M^T k.
static inline void mr_recall(__global const float* m, __global const float* k, Values* out) {
  Values sums[4 * RECUR_VECTORS];
  MR_EACH(i, 4 * RECUR_VECTORS) sums[i] = (Values)(0.0f);
  for (uint i = 0; i < KEY_DIM; i += 4) {
    MR_EACH(c, 4) MR_VECTORS(w) {
      const uint at = (i + c) * 16 + STATE_STEP(w);
      sums[c * RECUR_VECTORS + w] =
          fma((Values)(k[i + c]), MR_LOAD(m + at), sums[c * RECUR_VECTORS + w]);
    }
  }
  MR_VECTORS(w) out[w] = mr_four(sums + w);
}
#endif

// Computes the values of a head from `value` on, for all tokens of a row. The outputs may take the
// places of the values.
static inline void mr_recur(__global const StateRow* row, uint head, uint value,
                            __global const float* mixed, __global const float* gates,
                            __global const float* skip, __global float* states,
                            __global float* out, uint stride, uint out_stride,
                            uint state_stride) {
  states += (size_t)head * (KEY_DIM * RECUR_VALUE_DIM) + value / 16 * (KEY_DIM * 16) + value % 16;
  __global float* m = states + (size_t)row->to * state_stride;
  __global const float* before = m;  // the state before the token
  if (row->from != STEP_NO_SLOT) {
    before = states + (size_t)row->from * state_stride;
  } else {
    for (uint i = 0; i < KEY_DIM; ++i) {
      MR_VECTORS(w) MR_SET((Values)(0.0f), m + i * 16 + STATE_STEP(w));
    }
  }
  mixed += (size_t)row->token * stride;
  gates += (size_t)row->token * (2 * HEADS_PADDED);
  out += (size_t)row->token * out_stride + head * RECUR_VALUE_DIM + value;
  for (uint t = 0; t < row->tokens; ++t) {
    __global const float* k = mixed + KEYS_AT + KEY_HEAD(head) * KEY_DIM;
    __global const float* q = mixed + QUERIES_AT + KEY_HEAD(head) * KEY_DIM;
    __global const float* v = mixed + VALUES_AT + head * RECUR_VALUE_DIM + value;
    const float decay = gates[head], write = gates[HEADS_PADDED + head];
    Values u[RECUR_VECTORS], y[RECUR_VECTORS];
#if DELTA
    mr_recall(before, k, u);
    MR_VECTORS(w) u[w] = (MR_LOAD(v + VECTOR_STEP(w)) - u[w] * decay) * write;
#else
    MR_VECTORS(w) u[w] = MR_LOAD(v + VECTOR_STEP(w)) * write;
#endif
    mr_write_and_read(before, m, k, q, decay, u, y);
    before = m;
#if !DELTA
    MR_VECTORS(w) y[w] = fma(MR_LOAD(v + VECTOR_STEP(w)), (Values)(skip[head]), y[w]);
#endif
    MR_VECTORS(w) MR_SET(y[w], out + VECTOR_STEP(w));
    mixed += stride;
    gates += 2 * HEADS_PADDED;
    out += out_stride;
  }
}

__kernel __attribute__((reqd_work_group_size(RECUR_ITEMS, 1, 1)))
void recur(__global const float* mixed, __global const float* gates, __global const float* skip,
           __global float* states, __global float* out, __global const uint* step, uint rows,
           uint stride, uint out_stride, uint state_stride) {
  mr_recur(mr_state_row(step, rows, (uint)get_group_id(2)), (uint)get_group_id(1),
           (uint)get_group_id(0) * RECUR_VALUES + (uint)get_local_id(0), mixed, gates, skip,
           states, out, stride, out_stride, state_stride);
}
