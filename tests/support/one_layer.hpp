#pragma once
// Model specs for tests of kernels.
#include <cmath>
#include <cstdint>

#include "engine/core/families/spec.hpp"

namespace millrace::engine {

// Variations of plain causal attention (kernels/attention/shape.cl).
struct AttentionShape {
  std::uint32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
};

struct HeadSizes {
  std::uint32_t heads = 1, kv_heads = 1, head_dim = 0, rope_dim = head_dim;
  RopeKind rope = RopeKind::pairs;
  std::uint32_t latent = 0;  // the channels of a value within its key; 0: values are apart
};

// A model of one layer, of which only its attention is described.
inline ModelSpec one_layer(const HeadSizes& sizes, const AttentionShape& shape = {}) {
  LayerSpec layer;
  AttentionSpec& attention = layer.attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.kv_heads;
  attention.head_dim = sizes.head_dim;
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(sizes.head_dim)));
  attention.window = shape.window;
  attention.soft_cap = shape.soft_cap;
  attention.sinks = shape.sinks;
  attention.rope.kind = sizes.rope;
  attention.rope.dim = sizes.rope_dim;
  if (sizes.latent > 0) {
    attention.latent = {.rank = sizes.latent, .plain_dim = 16, .value_dim = 16};
  }
  ModelSpec spec;
  spec.layers.push_back(layer);
  return spec;
}

}  // namespace millrace::engine
