// Multiplies the heads' outputs by the logistic function of their gates, channel by channel, in
// place: attended *= 1 / (1 + exp(-gate)).
//
//   qkv       float [tokens][qkv_stride]; the gates of all heads from `gates` on
//   attended  float [tokens][out_stride], 16 * blocks of each row
//   launch    one group of ROW_ITEMS work-items per token
// Limit: vector operations, 25 for 16 channels.
#include "common/prelude.cl"
#include "common/sigmoid.cl"

static inline void mr_gate_attended(__global const float* gates, __global float* attended,
                                    uint blocks) {
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16(vload16(b, attended) * mr_sigmoid16(vload16(b, gates)), b, attended);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gate_attended(__global const float* qkv, __global float* attended, uint gates, uint blocks,
                   uint qkv_stride, uint out_stride) {
  mr_gate_attended(qkv + get_group_id(0) * qkv_stride + gates,
                   attended + get_group_id(0) * out_stride, blocks);
}
