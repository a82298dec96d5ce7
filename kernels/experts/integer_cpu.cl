// Multiplies each run's quantized rows by its expert's matrix, on CPUs. generic.cl defines what is
// computed and the arguments, integer_tiles.cl does the work.
//
//   x        rows by token, read by runs of one slot if by_token is not 0
//   sorted   rows by slot, read by the other runs (runs.cl, gather_rows)
//   launch   local (1), one group per core. Every run is cut into chunks, panels by columns, which
//            the groups claim by one counter. So all cores share a run that many tokens chose, and
//            a core that got a long chunk takes fewer of them
//   counters uint [2], zero before and after each launch: next chunk, groups that have finished
//   scratch  STRIP_FLOATS floats per group
// Limit: that of integer_tiles.cl.
#include "common/prelude.cl"
#include "experts/integer_tiles.cl"
#include "quantize/code_block.h"

#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

MR_KERNEL experts_matmul(__global const uchar* weight, __global const int* x,
                         __global const int* sorted, __global float* out,
                         __global const float* bias, __global const uint* runs, uint panels,
                         uint first_expert, uint experts, uint rows, uint first_row,
                         uint out_stride, uint by_token, uint mode,
                         volatile __global uint* counters) {
  const ExpertsProduct product = {weight, x,         sorted,   bias, panels,
                                  rows,   first_row, by_token, mode};
  const Work work = {runs, first_expert, experts, (panels + 1) / 2, 1, mr_share(runs)};
  Walk walk;
  MR_N(mr_begin)(&walk, &work);
  while (MR_N(mr_go)(&walk, &work, atomic_inc(counters))) {
    MR_N(mr_experts_pairs)(&walk, &work, &product, out, out_stride);
  }
  mr_finish(counters);
}

// Computes gate and up, panels / 2 each, and writes the slots' quantized rows of their activation
// (activation/gated.cl).
MR_KERNEL experts_gate_up(__global const uchar* weight, __global const int* x,
                          __global const int* sorted, __global float* scratch, __global int* out,
                          __global const float* bias, __global const uint* runs, uint panels,
                          uint first_expert, uint experts, uint rows, uint out_stride, uint mode,
                          volatile __global uint* counters) {
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const ExpertsProduct product = {weight, x, sorted, bias, panels, rows, 0, 1, mode};
  const Work work = {runs, first_expert, experts, panels / 4, 2, mr_share(runs)};
  Walk walk;
  MR_N(mr_begin)(&walk, &work);
  while (MR_N(mr_go)(&walk, &work, atomic_inc(counters))) {
    MR_N(mr_experts_gate_up)(&walk, &work, &product, sums, out, out_stride);
  }
  mr_finish(counters);
}
