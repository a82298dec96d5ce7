// Multiplies each run's rows of floats by its expert's matrix, on CPUs. generic.cl defines what is
// computed and the arguments, integer_cpu.cl the launch; the tiles of matmul/exact_cpu.cl do the
// work.
// Limit: at few rows, reads of the experts' weights; from about 4 slots a run, fp32 multiply-adds.
#include "matmul/cut.cl"
#include "matmul/exact_cpu.cl"
#include "matmul/layout.cl"

// Cuts a run of the rows of an expert: units of four panels in runs of one, columns in tiles.
static inline Cut MR_N(mr_cut_work)(uint units, uint pairs, uint columns, uint share) {
  const uint parts = MR_FLOAT_TILES(columns);
  const Cut cut = {1, parts, 1, units * parts};
  return cut;
}

#define ROW_NUMBER float
#include "experts/chunks.cl"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void experts_matmul(__global const uchar* weight, __global const float* x,
                    __global const float* sorted, __global float* out, __global const float* bias,
                    __global const uint* runs, uint panels, uint first_expert, uint experts,
                    uint rows, uint first_row, uint out_stride, uint by_token, uint mode,
                    volatile __global uint* counters) {
  const ExpertsProduct product = {weight, x,         sorted,   bias, panels,
                                  rows,   first_row, by_token, mode};
  const Work work = {runs, first_expert, experts, (panels + 3) / 4, 2, mr_share(runs)};
  Walk walk;
  MR_N(mr_begin)(&walk, &work);
  while (MR_N(mr_go)(&walk, &work, atomic_inc(counters))) {
    Chunk at;
    MR_N(mr_find_chunk)(&at, &walk, &work, &product);
    mr_panels(at.weight, at.x, out + at.slot * out_stride + first_row, at.bias, 4 * at.first,
              min(4 * at.last, panels), at.width, out_stride, mode);
  }
  mr_finish(counters);
}
