// Quantizes rows of floats (block.cl), alone or right after an operation that feeds a matrix
// product. Each row has a group of ROW_ITEMS work-items. Limit: vector operations, 31 a block, half
// of them for its two folds of 16 lanes; a norm before it adds 10, a gate by SiLU 60.
//
//   out  rows of codes, out_stride words each; the kernels write `blocks` blocks of each row
// The kernels quantize exactly the numbers that norm/rms.cl and activation/gated.cl would write.
#include "activation/gated.cl"
#include "common/prelude.cl"
#include "norm/rms.cl"
#include "quantize/block.cl"
#include "quantize/gated.cl"
#include "quantize/norm.cl"
#include "quantize/row.cl"

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void quantize_rows(__global const float* x, __global int* out, uint blocks, uint x_stride,
                   uint out_stride) {
  x += get_group_id(0) * x_stride;
  mr_quantize_row(x, 0, 0.0f, 1.0f, 0, blocks,
                  mr_code_row(out, (uint)get_group_id(0), out_stride));
}

// Takes the arguments of rms_norm.
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void rms_norm_quantize(__global const float* x, __global const float* weight, __global int* out,
                       __global const uint* step, uint rows, uint gather, uint blocks,
                       uint x_stride, uint out_stride, float inverse_width, float epsilon) {
  MR_SUMS
  const uint i = (uint)get_group_id(0);
  x += (size_t)(gather != 0 ? step[rows + i] : i) * x_stride;
  mr_norm_quantize(x, weight, mr_code_row(out, i, out_stride), blocks, inverse_width,
                   epsilon MR_SUMS_ARGUMENT);
}

// Takes the arguments of gated_mul; gate and up are each padded to 32s. Groups (rows, any number).
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void gated_mul_quantize(__global const float* gate_up, __global int* out, uint blocks,
                       uint out_stride) {
  gate_up += get_group_id(0) * (blocks * 32 * GATE_INPUTS);
  mr_quantize_gated(gate_up, gate_up + blocks * 32 * (GATE_INPUTS - 1), blocks,
                    mr_code_row(out, (uint)get_group_id(0), out_stride), (uint)get_group_id(1),
                    (uint)get_num_groups(1));
}
