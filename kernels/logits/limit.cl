// Scales logits in place and, with SOFT_CAP, limits them: SOFT_CAP * tanh(x * scale / SOFT_CAP).
//
//   logits float [rows][stride]
//   launch one group of ROW_ITEMS work-items per row
// Limit: memory; with a cap on CPUs vector operations.
#include "common/cap.cl"
#include "common/prelude.cl"

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void limit_logits(__global float* logits, uint stride, float scale) {
  logits += (size_t)get_group_id(0) * stride;
  for (uint b = ROW_ITEM; b < stride / 16; b += ROW_ITEMS) {
    float16 x = vload16(b, logits) * scale;
#ifdef SOFT_CAP
    x = mr_capped16(x);
#endif
    vstore16(x, b, logits);
  }
}
