// Multiplies a token's queries by the factor of its position.
//
//   qkv     float [tokens][qkv_stride]: HEADS queries of HEAD_DIM channels come first
//   factors float [positions]
//   step    uint: per token its position, from `positions` on
//   launch  one group of ROW_ITEMS work-items per token
// Limit: memory, of which it moves little.
#include "attention/heads.cl"
#include "common/prelude.cl"

static inline void mr_scale_queries(__global float* row, float factor) {
  for (uint d = ROW_ITEM; d < HEADS * HEAD_DIM; d += ROW_ITEMS) row[d] = row[d] * factor;
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void scale_queries(__global float* qkv, __global const float* factors, __global const uint* step,
                   uint positions, uint qkv_stride) {
  const uint token = (uint)get_group_id(0);
  mr_scale_queries(qkv + (size_t)token * qkv_stride, factors[step[positions + token]]);
}
