#pragma once
// The sizes of a model's keys and values. Thread safety: pure functions.
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/families/spec.hpp"
#include "engine/core/kv/cache_shape.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

inline KvShape kv_shape(const ModelSpec& spec) {
  std::vector<KvHeads> layers;
  for (const LayerSpec& layer : spec.layers) {
    const AttentionSpec& attention = layer.attention;
    layers.push_back(attention.stores() ? KvHeads{attention.kv_heads, attention.head_dim,
                                                  attention.latent.has_value()}
                                        : KvHeads{});
  }
  return KvShape(std::move(layers));
}

inline std::vector<std::uint32_t> layer_windows(const ModelSpec& spec) {
  std::vector<std::uint32_t> out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.attention.window);
  return out;
}

// The bytes of a sequence's state in each layer; empty if no layer has one.
inline std::vector<std::uint64_t> layer_states(const ModelSpec& spec) {
  std::vector<std::uint64_t> out;
  if (!spec.has_states()) return out;
  for (const LayerSpec& layer : spec.layers) {
    const RecurrenceSpec& recurrence = layer.recurrence;
    out.push_back(recurrence.exists() ? recurrence.state_floats() * sizeof(float) : 0);
  }
  return out;
}

inline CacheShape cache_shape(const ModelSpec& spec, std::vector<KvCodecs> layers) {
  return {kv_shape(spec), std::move(layers), layer_windows(spec), layer_states(spec)};
}

}  // namespace millrace::engine
