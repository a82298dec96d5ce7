#pragma once
// The weights of multi-head latent attention besides those that all layers have (weights.hpp;
// families/spec.hpp, LatentSpec). Errors: those of weights.hpp. Thread safety: plain values.
#include "engine/core/device/device.hpp"
#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/weights.hpp"

namespace millrace::engine {

struct LatentWeights {
  Projection query_b;  // without runs if queries have no latent
  float norm_epsilon = 0.0f;
  Buffer query_norm, latent_norm;  // the first is empty if queries have no latent
  ExpertMatrix keys, values;       // attn_k_b and attn_v_b, a matrix of each head
};

}  // namespace millrace::engine
