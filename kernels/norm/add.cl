// Adds a sublayer's output to the residual stream:
//
//   hidden += ((branch * (1 / sqrt(mean(branch^2) + epsilon))) * weight) * scale     ADD_NORMED 1
//   hidden += branch * scale                                                         ADD_NORMED 0
//
//   hidden, branch  float [tokens][stride], 16 * blocks of each row
//   weight          float [blocks * 16], zero beyond the true width; not read with ADD_NORMED 0
//   launch          one group of ROW_ITEMS work-items per token
// Order of sums: that of rms.cl. Limit: memory.
#include "common/prelude.cl"
#include "norm/rms.cl"

#ifndef ADD_NORMED
#define ADD_NORMED 1
#endif

MR_GROUP_INLINE void mr_add_branch(__global float* hidden, __global const float* branch,
                                   __global const float* weight, uint blocks, float inverse_width,
                                   float epsilon, float scale MR_SUMS_PARAMETER) {
#if ADD_NORMED
  const float by = mr_rms_scale(branch, blocks, inverse_width, epsilon, 0.0f MR_SUMS_ARGUMENT);
#define MR_BRANCH(b) ((vload16(b, branch) * by) * vload16(b, weight))
#else
#define MR_BRANCH(b) vload16(b, branch)
#endif
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    vstore16(vload16(b, hidden) + MR_BRANCH(b) * scale, b, hidden);
  }
#undef MR_BRANCH
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void add_branch(__global float* hidden, __global const float* branch,
                __global const float* weight, uint blocks, uint stride, float inverse_width,
                float epsilon, float scale) {
  MR_SUMS
  const size_t at = (size_t)get_group_id(0) * stride;
  mr_add_branch(hidden + at, branch + at, weight, blocks, inverse_width, epsilon,
                scale MR_SUMS_ARGUMENT);
}
