// Multiplies each run's rows of floats by its expert's matrix, on CPUs. generic.cl defines what is
// computed and the arguments, integer_cpu.cl the launch; the tiles of matmul/exact_cpu.cl do the
// work.
// Limit: at few rows, reads of the experts' weights; from about 4 slots a run, fp32 multiply-adds.
#include "matmul/cut.cl"
#include "matmul/exact_cpu.cl"
#include "matmul/layout.cl"

#define ROW_NUMBER float
#include "experts/chunks.cl"

// Cuts a run of the rows of an expert: units of four panels in runs of one, columns in tiles.
static inline Cut mr_cut_work(uint units, uint pairs, uint columns, uint share) {
  const uint parts = MR_COLUMN_TILES(columns);
  const Cut cut = {1, parts, units * parts};
  return cut;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void experts_matmul(__global const uchar* weight, __global const float* x,
                    __global const float* sorted, __global float* out, __global const float* bias,
                    __global const uint* runs, uint panels, uint first_expert, uint experts,
                    uint rows, uint first_row, uint out_stride, uint by_token, uint mode,
                    volatile __global uint* counters) {
  const Work work = {runs, first_expert, experts, (panels + 3) / 4, 2, mr_share(runs)};
  Walk walk;
  walk.before = 0;
  mr_enter(&walk, &work, 0);
  while (mr_claim(&walk, &work, counters)) {
    Chunk chunk;
    mr_find_chunk(&chunk, &walk, &work, x, sorted, by_token);
    __global float* to = out + chunk.slot * out_stride + first_row;
    mr_panels(MR_MATRIX(chunk), chunk.x, to, MR_BIAS(chunk), 4 * chunk.first,
              min(4 * chunk.last, panels), chunk.width, out_stride, mode);
  }
  mr_finish(counters);
}
