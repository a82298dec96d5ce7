// The causal convolution of a recurrent layer, each channel by itself:
//
//   y[t] = bias + w[0] s[t - TAPS + 1] + ... + w[TAPS - 1] s[t]
//
// CONVOLVE_GATED 0: s is the channel of `mixed`, and out = silu(y) takes its place there.
// CONVOLVE_GATED 1, the short convolution of LFM2: `mixed` has three vectors of CHANNELS, b, c and
// x, from CHANNELS_AT on; s = b * x, and out = c * y goes to `out`, float [tokens][out_stride].
//
//   taps    float [TAPS][CHANNELS], the last for the token itself
//   bias    float [CHANNELS], or null
//   states  float [places][state_stride], shape.cl; read and written where the row says
//   launch  one group of ROW_ITEMS work-items for CONVOLVE_BLOCKS blocks of 16 channels of each
//           row of the step: groups (ceil(CHANNELS / 16 / CONVOLVE_BLOCKS), rows)
// Order of sums: from the bias, or zero, on by fma, the oldest input first. CHANNELS is a multiple
// of 16. Limit: memory; for prompts silu, 30 vector operations for 16 channels.
#include "common/prelude.cl"
#include "common/sigmoid.cl"
#include "recurrence/shape.cl"

#ifndef CONVOLVE_GATED
#define CONVOLVE_GATED 0
#endif
#ifndef CONVOLVE_BLOCKS
#define CONVOLVE_BLOCKS 16
#endif

// Blocks of a work-item.
#define ITEM_BLOCKS ((CONVOLVE_BLOCKS + ROW_ITEMS - 1) / ROW_ITEMS)

// Convolves every ROW_ITEMS-th block from `first` on, below `end`, of a row's tokens. With
// CONVOLVE_GATED, out may be the place of c in mixed.
static inline void mr_convolve(__global const StateRow* row, __global float* mixed,
                               __global float* out, __global const float* taps,
                               __global const float* bias, __global float* states, uint stride,
                               uint out_stride, uint state_stride, uint first, uint end) {
  mixed += (size_t)row->token * stride + CHANNELS_AT;
#if CONVOLVE_GATED
  out += (size_t)row->token * out_stride;
#endif
  float16 s[ITEM_BLOCKS][TAPS];  // the last inputs of each block
  for (uint i = 0, b = first; b < end; ++i, b += ROW_ITEMS) {
    __global const float* before = states + (size_t)row->from * state_stride + HISTORY_AT;
    MR_EACH(j, TAPS - 1) {
      s[i][j] = row->from == STEP_NO_SLOT ? (float16)(0.0f) : vload16(b, before + j * CHANNELS);
    }
  }
  // Token by token, because a row of `mixed` is far from the next one.
  for (uint t = 0; t < row->tokens; ++t) {
    for (uint i = 0, b = first; b < end; ++i, b += ROW_ITEMS) {
#if CONVOLVE_GATED
      s[i][TAPS - 1] = vload16(b, mixed) * vload16(b, mixed + 2 * CHANNELS);
#else
      s[i][TAPS - 1] = vload16(b, mixed);
#endif
      float16 y = bias != 0 ? vload16(b, bias) : (float16)(0.0f);
      MR_EACH(j, TAPS) y = fma(vload16(b, taps + j * CHANNELS), s[i][j], y);
#if CONVOLVE_GATED
      vstore16(vload16(b, mixed + CHANNELS) * y, b, out);
#else
      vstore16(y * mr_sigmoid16(y), b, mixed);
#endif
      MR_EACH(j, TAPS - 1) s[i][j] = s[i][j + 1];
    }
    mixed += stride;
#if CONVOLVE_GATED
    out += out_stride;
#endif
  }
  __global float* after = states + (size_t)row->to * state_stride + HISTORY_AT;
  for (uint i = 0, b = first; b < end; ++i, b += ROW_ITEMS) {
    MR_EACH(j, TAPS - 1) vstore16(s[i][j], b, after + j * CHANNELS);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void convolve(__global float* mixed, __global float* out, __global const float* taps,
              __global const float* bias, __global float* states, __global const uint* step,
              uint rows, uint stride, uint out_stride, uint state_stride) {
  const uint first = (uint)get_group_id(0) * CONVOLVE_BLOCKS;
  mr_convolve(mr_state_row(step, rows, (uint)get_group_id(1)), mixed, out, taps, bias, states,
              stride, out_stride, state_stride, first + ROW_ITEM,
              min(first + CONVOLVE_BLOCKS, (uint)(CHANNELS / 16)));
}
