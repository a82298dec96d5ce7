// Norms the latents of multi-head latent attention, and makes a token's key of its own:
//
//   queries = rms(x[0 .. 16 * query_blocks)) * query_weight           if query_blocks is not 0
//   key     = [the ROPE_CHANNELS numbers after the latent of keys, as they are | rms(latent) *
//             key_weight]
//
//   x        float [tokens][x_stride]: the latent of queries, or queries; from key_row on the
//            latent of keys, VALUE_DIM numbers, then ROPE_CHANNELS that attention rotates
//   queries  float [tokens][query_stride]
//   qkv      float [tokens][qkv_stride], whose keys begin at K_ROW (attention/heads.cl)
//   weights  float, zero beyond the true width
//   launch   one group of ROW_ITEMS work-items per token
// Order of sums: that of norm/rms.cl. Limit: memory, of which it moves little.
#include "attention/heads.cl"
#include "common/prelude.cl"
#include "norm/rms.cl"

#define ROPE_CHANNELS (HEAD_DIM - VALUE_DIM)

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void split_latents(__global const float* x, __global const float* query_weight,
                   __global const float* key_weight, __global float* queries, __global float* qkv,
                   uint query_blocks, uint key_row, uint x_stride, uint query_stride,
                   uint qkv_stride, float inverse_query_width, float epsilon) {
  MR_SUMS
  const size_t token = get_group_id(0);
  x += token * x_stride;
  if (query_blocks > 0) {
    mr_norm_row(x, query_weight, queries + token * query_stride, query_blocks,
                inverse_query_width, epsilon MR_SUMS_ARGUMENT);
#if ROW_ITEMS > 1
    barrier(CLK_LOCAL_MEM_FENCE);  // before the sums are written again
#endif
  }
  __global const float* latent = x + key_row;
  __global float* key = qkv + token * qkv_stride + K_ROW;
  for (uint i = ROW_ITEM; i < ROPE_CHANNELS; i += ROW_ITEMS) key[i] = latent[VALUE_DIM + i];
  mr_norm_row(latent, key_weight, key + ROPE_CHANNELS, VALUE_DIM / 16, 1.0f / VALUE_DIM,
              epsilon MR_SUMS_ARGUMENT);
}
