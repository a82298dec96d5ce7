#pragma once
// Multiplies quantized columns by a packed matrix, on CPUs. integer_generic.cl defines arguments
// and the numeric contract, integer_tiles.cl does the work.
//
//   launch   local (1), one group per core. The work is cut into chunks, runs of panels by parts of
//            the columns, which groups claim by a counter. So the others take over the work of a
//            core that wakes late or is taken away, instead of waiting for its share
//   work     uint [2], zero before and after each launch: next chunk, groups that have finished
//   scratch  STRIP_FLOATS floats per group
// Which group computes a chunk depends on time; the chunk's result does not.
// Limit: that of integer_tiles.cl; a launch costs 13 us on top.
#include "matmul/cut.cl"
#include "matmul/integer_tiles.cl"

#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

// Runs `chunk` for units first .. last - 1 and columns c .. c + width - 1, until none is left; a
// unit is `pairs` pairs of panels. The last group resets the counters.
#define MR_CLAIM(units, pairs, chunk)                                                  \
  {                                                                                    \
    const uint share = (uint)get_num_groups(0) * CHUNKS_A_GROUP;                       \
    const Cut cut = MR_N(mr_cut_work)(units, pairs, columns, share);                   \
    for (uint i; (i = atomic_inc(work)) < cut.chunks;) {                               \
      const uint first = i / cut.parts * cut.run, last = min(first + cut.run, units);  \
      const uint part = i % cut.parts, c = mr_part_begin(&cut, columns, part);         \
      const uint width = mr_part_begin(&cut, columns, part + 1) - c;                   \
      chunk;                                                                           \
    }                                                                                  \
    if (atomic_inc(work + 1) == (uint)get_num_groups(0) - 1) {                         \
      atomic_xchg(work, 0);                                                            \
      atomic_xchg(work + 1, 0);                                                        \
    }                                                                                  \
  }

MR_KERNEL matmul(__global const uchar* weight, __global const int* x, __global float* out,
                 __global const float* bias, uint panels, uint columns, uint out_stride,
                 uint out_row, uint mode, volatile __global uint* work) {
  const uint pairs = (panels + 1) / 2;
  out += out_row;
  bias += out_row;
  MR_CLAIM(pairs, 1,
           MR_N(mr_pairs)(weight, x + (size_t)c * X_STRIDE, out + (size_t)c * out_stride, bias,
                          panels, first, last, 1, width, MR_COLUMN_TILES(width), out_stride, mode))
}

// Computes gate and up, panels/2 each, and writes quantized rows of their activation
// (activation/gated.cl).
MR_KERNEL gate_up(__global const uchar* weight, __global const int* x, __global float* scratch,
                  __global int* out, __global const float* bias, uint panels, uint columns,
                  uint out_stride, uint mode, volatile __global uint* work) {
  __global float* sums = scratch + get_group_id(0) * STRIP_FLOATS;
  const uint blocks = panels / 4;
  MR_CLAIM(blocks, 2,
           MR_N(mr_gate_up)(weight, x + (size_t)c * X_STRIDE, out + (size_t)c * out_stride, bias,
                            sums, panels, first, last, 1, width, MR_COLUMN_TILES(width),
                            out_stride, mode))
}
