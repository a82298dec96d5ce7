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

// Convolves block `b` of 16 channels over the tokens of a row.
static inline void mr_convolve_block(__global float* mixed, __global float* out,
                                     __global const float* taps, __global const float* bias,
                                     __global const float* before, __global float* after, uint b,
                                     uint tokens, uint stride, uint out_stride) {
  float16 w[TAPS], s[TAPS];
  MR_EACH(j, TAPS) w[j] = vload16(b, taps + j * CHANNELS);
  MR_EACH(j, TAPS - 1) {
    s[j] = before != 0 ? vload16(b, before + j * CHANNELS) : (float16)(0.0f);
  }
  const float16 from = bias != 0 ? vload16(b, bias) : (float16)(0.0f);
  for (uint t = 0; t < tokens; ++t) {
#if CONVOLVE_GATED
    s[TAPS - 1] = vload16(b, mixed) * vload16(b, mixed + 2 * CHANNELS);
#else
    s[TAPS - 1] = vload16(b, mixed);
#endif
    float16 y = from;
    MR_EACH(j, TAPS) y = fma(w[j], s[j], y);
#if CONVOLVE_GATED
    vstore16(vload16(b, mixed + CHANNELS) * y, b, out);
    out += out_stride;
#else
    vstore16(y * mr_sigmoid16(y), b, mixed);
#endif
    mixed += stride;
    MR_EACH(j, TAPS - 1) s[j] = s[j + 1];
  }
  MR_EACH(j, TAPS - 1) vstore16(s[j], b, after + j * CHANNELS);
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void convolve(__global float* mixed, __global float* out, __global const float* taps,
              __global const float* bias, __global float* states, __global const uint* step,
              uint rows, uint stride, uint out_stride, uint state_stride) {
  const StateRow row = *mr_state_row(step, rows, (uint)get_group_id(1));
  const uint first = (uint)get_group_id(0) * CONVOLVE_BLOCKS;
  const uint end = min(first + CONVOLVE_BLOCKS, (uint)(CHANNELS / 16));
  mixed += (size_t)row.token * stride + CHANNELS_AT;
  if (out != 0) out += (size_t)row.token * out_stride;
  __global const float* before = 0;
  if (row.from != STEP_NO_SLOT) before = states + (size_t)row.from * state_stride + HISTORY_AT;
  __global float* after = states + (size_t)row.to * state_stride + HISTORY_AT;
  for (uint b = first + ROW_ITEM; b < end; b += ROW_ITEMS) {
    mr_convolve_block(mixed, out, taps, bias, before, after, b, row.tokens, stride, out_stride);
  }
}
