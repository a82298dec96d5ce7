#pragma once
// KV policies: which codec stores the keys and the values of each layer.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3+first:2+last:2"));
//   MILLRACE_ASSIGN(KvLayers layers, resolve(policy, {.layers = 30, .head_dim = 64}));
//   layers.name();   // "f16/f16 x2, r5/r3 x26, f16/f16 x2"
//
// A policy is what a user asks for (schemas/base/kv_policy.hpp has the names). KvLayers is the
// result for a model, layer by layer. A codec that cannot store the model's heads is refused, never
// replaced. Thread safety: plain values.
#include <cstdint>
#include <string>
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

// Bytes of a page in one layer: codes and parameters of all heads, rounded up to whole cache lines.
std::uint64_t layer_page_bytes(const KvCodecs& codecs, std::uint32_t kv_heads,
                               std::uint32_t head_dim);

struct KvShape {
  std::uint32_t layers = 0, kv_heads = 0, head_dim = 0;
};

// The codecs of each layer of a model.
struct KvLayers {
  std::vector<KvCodecs> layers;
  std::string name() const;  // "r5/r3 x30"; runs of equal layers in order
  // Bytes of codes and parameters, without the rounding of pages.
  double bytes_per_token(const KvShape& shape) const;
  double compression(const KvShape& shape) const;  // bytes of f16 over these; 1 for f16 itself
  friend bool operator==(const KvLayers&, const KvLayers&) = default;
};
// Applies a policy to a model. Errors: unsupported_field if a codec cannot store the heads;
// invalid_value for protection of a layer that the model does not have.
Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape);

}  // namespace millrace::engine
