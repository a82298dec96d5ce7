#pragma once
// The sizes of a model's keys and values. Thread safety: a pure function.
#include "engine/core/families/spec.hpp"
#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

inline KvShape kv_shape(const ModelSpec& spec) {
  const AttentionSpec& attention = spec.attention();
  return {spec.layer_count(), attention.kv_heads, attention.head_dim};
}

}  // namespace millrace::engine
