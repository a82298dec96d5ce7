// Multiplies the rows of each run (runs.cl) by its expert's matrix on CPUs, chunk by chunk, with
// the tiles of matmul/integer_tiles.cl. A template, for each PRODUCT of a program
// (matmul/layout.cl) that experts have. generic.cl defines what is computed; an output's bits
// depend on its expert and its row of x alone.
// Limit: at few rows, reads of the experts' weights; from about 4 slots a run, dot products.
#include "common/prelude.cl"
#include "matmul/cut.cl"
#include "matmul/integer_tiles.cl"
#include "matmul/layout.cl"

#undef ROW_NUMBER
#define ROW_NUMBER int
#include "experts/chunks.cl"

// Multiplies the chunk where the walk is; `out` has rows by slot.
static inline void MR_N(mr_experts_pairs)(const Walk* walk, const Work* work,
                                          const ExpertsProduct* product, __global float* out,
                                          uint out_stride) {
  Chunk at;
  MR_N(mr_find_chunk)(&at, walk, work, product);
  MR_N(mr_pairs)(at.weight, at.x, out + at.slot * out_stride + product->first_row, at.bias,
                 product->panels, at.first, at.last, 1, at.width, MR_COLUMN_TILES(at.width),
                 out_stride, product->mode);
}

// Computes gate and up, panels / 2 each, and writes the slots' quantized rows of their activation
// (activation/gated.cl); `sums` has STRIP_FLOATS floats for the group alone.
static inline void MR_N(mr_experts_gate_up)(const Walk* walk, const Work* work,
                                            const ExpertsProduct* product, __global float* sums,
                                            __global int* out, uint out_stride) {
  Chunk at;
  MR_N(mr_find_chunk)(&at, walk, work, product);
  MR_N(mr_gate_up)(at.weight, at.x, out + at.slot * out_stride, at.bias, sums, product->panels,
                   at.first, at.last, 1, at.width, MR_COLUMN_TILES(at.width), out_stride,
                   product->mode);
}
