#pragma once
// The first phase of a recurrence (recurrence/README.md) in a launch of whole layers (cpu.cl), and
// the last, which makes codes of its outputs. They call the functions of the separate kernels, so
// the bits are the same. For a short convolution it reads:
//
//   MR_CONVOLVE(4, 6144, MR_VECTOR(2), MR_VECTOR(3), MR_FLOATS(4))    qkv -> qkv
//   MR_ROWS(6, MR_QUANTIZE_OUTPUT(6144, 592);)                        qkv -> attended
//
// The outputs take the place of numbers that nothing reads afterwards: those of a short convolution
// the place of c, those of heads (recurrence.cl) that of the values.
#include "quantize/row.cl"
#include "recurrence/shape.cl"

#include "recurrence/convolve.cl"

#define CONVOLVE_PARTS MR_CEIL(CHANNELS / 16, CONVOLVE_BLOCKS)
#if CONVOLVE_GATED
#define OUTPUTS_AT (CHANNELS_AT + CHANNELS)
#else
#define OUTPUTS_AT VALUES_AT
#endif

#define MR_CONVOLVE(place, stride, taps, bias, states)                                            \
  MR_PHASE(place, s->state_row_count * CONVOLVE_PARTS,                                            \
           const uint first = i % CONVOLVE_PARTS * CONVOLVE_BLOCKS;                               \
           mr_convolve(mr_state_row(s->step, s->state_rows, i / CONVOLVE_PARTS), s->qkv,          \
                       s->qkv + OUTPUTS_AT, taps, bias, states, stride, stride, STATE_FLOATS,     \
                       first, min(first + CONVOLVE_BLOCKS, (uint)(CHANNELS / 16))))
#define MR_QUANTIZE_OUTPUT(stride, out_stride)                                                    \
  mr_quantize_row(s->qkv + (size_t)c * (stride) + OUTPUTS_AT, 0, 0.0f, 1.0f, 0, OUTPUTS / 32u,     \
                  s->attended + (size_t)c * (out_stride))
