// Computes causal attention over pages on CPUs, for tiles of one size (tiles.cl).
//
//   work    uint, zero before and after each launch (work.h)
//   launch  local (1), one group per core; each takes units (times HEAD_SETS) until none is left
#include "attention/tiles.cl"
#include "attention/units.cl"
#include "attention/work.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention(__global const float* qkv, __global const float* rope,
               __global const float* means, __global const float* sinks, __global uchar* kv,
               __global const uint* step, __global float* out, __global float16* partial,
               volatile __global uint* work, uint positions, uint tables, uint units,
               uint unit_count, uint qkv_stride, uint out_stride, __global int* codes,
               uint code_stride, float scale) {
  const Attention a = {qkv,       rope,   means,      sinks,      kv,          step,
                       out,       codes,  partial,    work + WORK_CUTS, positions,   tables,
                       qkv_stride, out_stride, code_stride, scale};
  MR_Q(mr_attend)(&a, units, unit_count, work + WORK_NEXT, 0);
  if (atomic_inc(work + WORK_DONE) == (uint)get_num_groups(0) - 1) {
    atomic_xchg(work + WORK_NEXT, 0);
    atomic_xchg(work + WORK_DONE, 0);
  }
}
