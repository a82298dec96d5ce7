#pragma once
// Computes out = gate function(gate) * up, the activation of a gated feed-forward (gate.cl).
//
//   gate_up float [tokens][GATE_INPUTS * 16 * blocks]: gate, then up, each padded to 16s with
//           zeros; or up alone
//   out     float [tokens][out_stride], 16 * blocks of each row written
//   launch  one group of ROW_ITEMS work-items per token
// Limit: on CPUs vector operations, 30 for 16 channels (silu); elsewhere memory.
#include "activation/gate.cl"
#include "common/prelude.cl"

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gated_mul(__global const float* gate_up, __global float* out, uint blocks, uint out_stride) {
  const uint token = (uint)get_group_id(0);
  __global const float* gate = gate_up + (size_t)token * (blocks * 16 * GATE_INPUTS);
  __global const float* up = gate + blocks * 16 * (GATE_INPUTS - 1);
  out += (size_t)token * out_stride;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16(mr_gate_mul16(vload16(b, gate), vload16(b, up)), b, out);
  }
}
