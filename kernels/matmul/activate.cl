#pragma once
// The end of a gated product on CPUs: from its sums to codes.
#include "activation/gated.cl"
#include "quantize/block.cl"

// Computes the activation (activation/gated.cl) of `width` rows of 32 gates and 32 ups, in place,
// and writes the codes.
static inline void mr_activate(__global float* sums, uint width, __global int* out,
                               uint out_stride) {
  Tops tops;
  mr_no_tops(&tops);
  for (uint j = 0; j < width; j += 2) {
    __global float16* a = (__global float16*)(sums + j * 64);
    __global float16* b = (__global float16*)(sums + min(j + 1, width - 1) * 64);
    const float16 gate[4] = {a[0], a[1], b[0], b[1]}, up[4] = {a[2], a[3], b[2], b[3]};
    float16 v[4];
    mr_gate_mul4(gate, up, v);
    a[0] = v[0];
    a[1] = v[1];
    b[0] = v[2];
    b[1] = v[3];
    tops.top[j] = mr_top(v[0], v[1]);
    tops.top[j + 1] = mr_top(v[2], v[3]);
  }
  mr_scales(&tops, width);
  for (uint j = 0; j < width; ++j) {
    __global const float16* row = (__global const float16*)(sums + j * 64);
    mr_store_block(row[0], row[1], tops.scale[j], tops.inverse[j], out + (size_t)j * out_stride);
  }
}
