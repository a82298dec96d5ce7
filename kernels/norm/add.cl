// Adds a sublayer's output to the residual stream, or to that of another sublayer:
//
//   hidden = (hidden + ((branch * (1 / sqrt(mean(branch^2) + epsilon))) * weight) * scale) * total
//   hidden = (hidden + branch * scale) * total                                        weight null
//
// With `replaces`, there is no hidden before the sum.
//
//   hidden, branch  float [tokens][stride], 16 * blocks of each row
//   weight          float [blocks * 16], zero beyond the true width, or null
//   total           float [1], or null for 1
//   launch          one group of ROW_ITEMS work-items per token
// Order of sums: that of rms.cl. Limit: memory.
#include "common/prelude.cl"
#include "norm/rms.cl"

MR_GROUP_INLINE void mr_add_branch(__global float* hidden, __global const float* branch,
                                   __global const float* weight, uint blocks, float inverse_width,
                                   float epsilon, float scale, __global const float* total,
                                   uint replaces MR_SUMS_PARAMETER) {
  const float times = total != 0 ? total[0] : 1.0f;
  float by = 1.0f;
  if (weight != 0) by = mr_rms_scale(branch, blocks, inverse_width, epsilon, 0.0f MR_SUMS_ARGUMENT);
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    float16 v = vload16(b, branch);
    if (weight != 0) v = (v * by) * vload16(b, weight);
    v = v * scale;
    if (replaces == 0) v = vload16(b, hidden) + v;
    vstore16(v * times, b, hidden);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void add_branch(__global float* hidden, __global const float* branch,
                __global const float* weight, uint blocks, uint stride, float inverse_width,
                float epsilon, float scale, __global const float* total, uint replaces) {
  MR_SUMS
  const size_t at = (size_t)get_group_id(0) * stride;
  mr_add_branch(hidden + at, branch + at, weight, blocks, inverse_width, epsilon,
                scale, total, replaces MR_SUMS_ARGUMENT);
}
