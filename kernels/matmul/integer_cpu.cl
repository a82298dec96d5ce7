// out[c][r] = sum over k of weight[r][k] * x[c][k], x quantized, for CPUs. Arguments and numeric
// contract: integer_generic.cl; the work itself: integer_tiles.cl.
//
//   launch   local (1), groups (any number): group g takes its part of the pairs of panels and
//            walks all columns in tiles, its weights in the first- or second-level cache
//   scratch  TILE x 64 floats a group

#define MR_KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define MR_COLUMN_TILES ((columns + TILE - 1) / TILE)

MR_KERNEL matmul(__global const uchar* weight, __global const int* x, __global float* out,
                 __global const float* bias, uint panels, uint columns, uint out_stride,
                 uint out_row, uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  const uint pairs = (panels + 1) / 2;
  MR_N(mr_pairs)(weight, x, out + out_row, bias + out_row, panels, mr_cut(pairs, g, groups),
                 mr_cut(pairs, g + 1, groups), 1, columns, MR_COLUMN_TILES, out_stride, mode);
}

// Gate and up, panels/2 each, to quantized rows of SiLU(gate) * up.
MR_KERNEL gate_up(__global const uchar* weight, __global const int* x, __global int* scratch,
                  __global int* out, __global const float* bias, uint panels, uint columns,
                  uint out_stride, uint mode) {
  const uint g = (uint)get_group_id(0), groups = (uint)get_num_groups(0);
  __global float* sums = (__global float*)scratch + g * (TILE * 64);
  MR_N(mr_gate_up)(weight, x, out, bias, sums, panels, mr_cut(panels / 4, g, groups),
                   mr_cut(panels / 4, g + 1, groups), 1, columns, MR_COLUMN_TILES, out_stride,
                   mode);
}
