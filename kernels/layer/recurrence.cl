#pragma once
// The phases of a recurrence with heads (recurrence/README.md), between those of convolve.cl, in a
// launch of whole layers (cpu.cl). They call the functions of the separate kernels, so the bits are
// the same. For a gated delta net it reads:
//
//   MR_ROWS(6, MR_RECURRENCE_GATES(8256, MR_VECTOR(5), MR_VECTOR(6), MR_FLOATS(7));)
//   MR_RECUR(8, 8256, MR_FLOATS(7), MR_VECTOR(8), MR_FLOATS(4))
//   MR_ROWS(10, MR_RECURRENCE_OUTPUT(8256, MR_VECTOR(9)); MR_QUANTIZE_OUTPUT(8256, 592);)
#include "layer/convolve.cl"

#include "recurrence/gates.cl"
#include "recurrence/output.cl"
#include "recurrence/recur.cl"

#define RECUR_PARTS (RECUR_HEADS * (RECUR_VALUE_DIM / RECUR_VALUES))

#define MR_RECURRENCE_GATES(stride, a, dt_bias, gates)                                       \
  for (uint part = 0; part < GATE_PARTS; ++part) {                                           \
    mr_recurrence_gates(s->qkv + (size_t)c * (stride), a, dt_bias,                           \
                        (gates) + (size_t)c * (2 * HEADS_PADDED), part, GATE_PARTS);         \
  }
// A chunk is RECUR_VALUES values of a head of a row.
#define MR_RECUR(place, stride, gates, skip, states)                                              \
  MR_PHASE(place, s->state_row_count * RECUR_PARTS,                                               \
           const uint value = i % RECUR_PARTS * RECUR_VALUES;                                     \
           mr_recur(mr_state_row(s->step, s->state_rows, i / RECUR_PARTS),                        \
                    value / RECUR_VALUE_DIM, value % RECUR_VALUE_DIM, s->qkv, gates, skip, states, \
                    s->qkv + OUTPUTS_AT, stride, stride, STATE_FLOATS))
#define MR_RECURRENCE_OUTPUT(stride, weight)                                                  \
  for (uint norm = 0; norm < OUTPUT_NORMS; ++norm) {                                          \
    mr_recurrence_output(s->qkv + (size_t)c * (stride) + OUTPUTS_AT,                          \
                         s->qkv + (size_t)c * (stride) + GATES_AT, weight, norm, s->epsilon); \
  }
