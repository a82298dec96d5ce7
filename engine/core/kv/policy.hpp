#pragma once
// KV policies: which codec stores the keys and the values of each layer.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3+first:2+last:2"));
//   MILLRACE_ASSIGN(KvLayers layers, resolve(policy, KvShape(30, {3, 64})));
//   layers.name(shape);   // "f16/f16 x2, r5/r3 x26, f16/f16 x2"
//
// A policy is what a user asks for (schemas/base/kv_policy.hpp has the names). KvLayers is the
// result for a model, layer by layer. A codec that cannot store the model's heads is refused, never
// replaced. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/kv/codec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t kv_page_tokens = 16;
inline constexpr std::uint32_t kv_segment_tokens = 256;  // positions in a partial sum of attention
static_assert(kv_segment_tokens % kv_page_tokens == 0);

using millrace::kv_presets;
using millrace::KvCodecs;
using millrace::KvPolicy;
using millrace::KvPreset;
using millrace::KvProtection;
using millrace::parse_kv_policy;
using millrace::parse_kv_protection;

// What a layer stores of each token: a key and a value of head_dim channels for each KV head. A
// layer that stores nothing has none: it has no attention. With values_in_keys a value is some
// channels of its key, and only keys are stored.
struct KvHeads {
  std::uint32_t kv_heads = 0, head_dim = 0;
  bool values_in_keys = false;
  bool exist() const { return kv_heads > 0; }
  std::uint32_t channels() const { return kv_heads * head_dim; }  // of all keys of a token
  friend bool operator==(const KvHeads&, const KvHeads&) = default;
};

// The heads of each layer of a model.
struct KvShape {
  std::vector<KvHeads> layers;
  KvShape() = default;
  explicit KvShape(std::vector<KvHeads> heads) : layers(std::move(heads)) {}
  KvShape(std::uint32_t count, const KvHeads& all) : layers(count, all) {}
  std::uint32_t count() const { return static_cast<std::uint32_t>(layers.size()); }
  std::size_t channels() const;  // of all keys of a token, in all layers
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// Refuses centered keys where there are none, and where values are channels of keys: they would
// lack the mean, too. Errors: unsupported_field.
Status check_centering(const KvShape& shape);

// Bytes of a page in one layer: codes and parameters of all heads, rounded up to whole cache lines.
std::uint64_t layer_page_bytes(const KvCodecs& codecs, const KvHeads& heads);

// The codecs of each layer of a model; those of layers that store nothing mean nothing.
struct KvLayers {
  std::vector<KvCodecs> layers;
  // "r5/r3 x30": runs of equal layers in order, without those that store nothing. "f16/f16" if none
  // stores anything, whatever the policy.
  std::string name(const KvShape& shape) const;
  // Bytes of codes and parameters, without the rounding of pages.
  double bytes_per_token(const KvShape& shape) const;
  double compression(
      const KvShape& shape) const;  // bytes of f16 over these; 1 for f16 itself, or none
  friend bool operator==(const KvLayers&, const KvLayers&) = default;
};
// Applies a policy to a model. Where values are channels of the keys, one plain codec stores both.
// Errors: unsupported_field if a codec cannot store the heads;
// invalid_value for protection of a layer that the model does not have.
Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape);

}  // namespace millrace::engine
