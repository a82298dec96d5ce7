// Multiplies each run's quantized rows by its expert's matrix, on CPUs. generic.cl defines what is
// computed and the arguments, chunks.cl finds a group's work, and the tiles of
// matmul/integer_tiles.cl do it. An output's bits depend on its expert and its row of x alone.
//
//   x        rows by token, read by runs of one slot if by_token is not 0
//   sorted   rows by slot, read by the other runs (runs.cl, gather_rows)
//   launch   local (1), one group per core. Every run is cut into chunks, panels by columns, which
//            the groups claim by one counter. So all cores share a run that many tokens chose, and
//            a core that got a long chunk takes fewer of them
//   work     uint [2], zero before and after each launch: next chunk, groups that have finished
//   scratch  STRIP_FLOATS floats per group
// Limit: at few rows, reads of the experts' weights; from about 4 slots a run, dot products.
#include "common/prelude.cl"
#include "matmul/cut.cl"
#include "matmul/integer_cpu.cl"
#include "matmul/layout.cl"
#include "quantize/block.cl"

#define ROW_NUMBER int
#include "experts/chunks.cl"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void experts_matmul(__global const uchar* weight, __global const int* x,
                    __global const int* sorted, __global float* out, __global const float* bias,
                    __global const uint* runs, uint panels, uint first_expert, uint experts,
                    uint rows, uint first_row, uint out_stride, uint by_token, uint mode,
                    volatile __global uint* counters) {
  const Work work = {runs, first_expert, experts, (panels + 1) / 2, 1, mr_share(runs)};
  Walk walk;
  walk.before = 0;
  mr_enter(&walk, &work, 0);
  while (mr_claim(&walk, &work, counters)) {
    Chunk chunk;
    mr_find_chunk(&chunk, &walk, &work, x, sorted, by_token);
    __global float* to = out + chunk.slot * out_stride + first_row;
    MR_N(mr_pairs)(MR_MATRIX(chunk), chunk.x, to, MR_BIAS(chunk), panels, chunk.first, chunk.last,
                   1, chunk.width, MR_COLUMN_TILES(chunk.width), out_stride, mode);
  }
  mr_finish(counters);
}

// Computes gate and up, panels / 2 each, and writes the slots' quantized rows of their activation
// (activation/gated.cl).
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void experts_gate_up(__global const uchar* weight, __global const int* x,
                     __global const int* sorted, __global float* scratch, __global int* out,
                     __global const float* bias, __global const uint* runs, uint panels,
                     uint first_expert, uint experts, uint rows, uint out_stride, uint mode,
                     volatile __global uint* counters) {
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const uint first_row = 0;
  const Work work = {runs, first_expert, experts, panels / 4, 2, mr_share(runs)};
  Walk walk;
  walk.before = 0;
  mr_enter(&walk, &work, 0);
  while (mr_claim(&walk, &work, counters)) {
    Chunk chunk;
    mr_find_chunk(&chunk, &walk, &work, x, sorted, 1);
    MR_N(mr_gate_up)(MR_MATRIX(chunk), chunk.x, out + chunk.slot * out_stride, MR_BIAS(chunk),
                     sums, panels, chunk.first, chunk.last, 1, chunk.width,
                     MR_COLUMN_TILES(chunk.width), out_stride, mode);
  }
  mr_finish(counters);
}
