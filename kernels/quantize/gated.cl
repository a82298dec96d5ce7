#pragma once
// Quantizes a row of what activation/gated.cl makes of `gate` and `up`, each 32 * blocks channels.
// The groups of a row's launch share it: `group` is the number of this one of `groups`.
#include "activation/gated.cl"
#include "common/prelude.cl"
#include "quantize/block.cl"

static inline void mr_quantize_gated(__global const float* gate, __global const float* up,
                                     uint blocks, CodeRow out, uint group, uint groups) {
  for (uint b = group * ROW_ITEMS + ROW_ITEM; b < blocks; b += groups * ROW_ITEMS) {
    mr_quantize(mr_gate_mul16(vload16(2 * b, gate), vload16(2 * b, up)),
                mr_gate_mul16(vload16(2 * b + 1, gate), vload16(2 * b + 1, up)),
                out, b);
  }
}
