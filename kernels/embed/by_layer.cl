// Makes the embeddings that a token has for each layer of two parts, in place:
//
//   e = (((q * scale) * (1 / sqrt(scale^2 * mean(q^2) + epsilon))) * weight + e) * sqrt(1/2)
//
//   e        float [tokens][e_stride]: 16 * blocks channels of each layer, the token's own part
//   q        float [tokens][q_stride]: likewise, the part of the model's projection
//   weight   float [16 * blocks]
//   inverse  scale^2 / (16 * blocks)
//   launch   one group of ROW_ITEMS work-items per layer and token: groups (layers, tokens)
//
// and gives them to the gated product of a layer:
//
//   gate_up  float [tokens][stride]: a row has 16 * blocks channels of the gate, then as many that
//            this kernel writes: those of layer `layer`
//   launch   one group of ROW_ITEMS work-items per token
// Order of sums: that of rms.cl. Limit: memory, of which they move little.
#include "common/prelude.cl"
#include "norm/rms.cl"

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void embed_by_layer(__global float* e, __global const float* q, __global const float* weight,
                    uint blocks, uint e_stride, uint q_stride, float scale, float inverse,
                    float epsilon) {
  MR_SUMS
  const uint layer = (uint)get_group_id(0), token = (uint)get_group_id(1);
  e += (size_t)token * e_stride + layer * blocks * 16;
  q += (size_t)token * q_stride + layer * blocks * 16;
  const float by = mr_rms_scale(q, blocks, inverse, epsilon, 0.0f MR_SUMS_ARGUMENT);
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) {
    const float16 normed = ((vload16(b, q) * scale) * by) * vload16(b, weight);
    vstore16((normed + vload16(b, e)) * 0.70710678f, b, e);
  }
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void place_embedding(__global const float* e, __global float* gate_up, uint layer, uint blocks,
                     uint e_stride, uint stride) {
  const uint token = (uint)get_group_id(0);
  e += (size_t)token * e_stride + layer * blocks * 16;
  gate_up += (size_t)token * stride + blocks * 16;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) vstore16(vload16(b, e), b, gate_up);
}
