#pragma once
// KV policies: which codec stores the keys and the values of each layer.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3+first:2+last:2"));
//   MILLRACE_ASSIGN(KvLayers layers, resolve(policy, {.layers = 30, .head_dim = 64}));
//   layers.name();   // "f16/f16 x2, r5/r3 x26, f16/f16 x2"
//
// A policy is what a user asks for (schemas/base/kv_policy.hpp has its names); KvLayers is what it
// comes to for a model, layer by layer. What a model's heads cannot be stored in is refused, never
// replaced. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/kv/codec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t kv_page_tokens = 16;      // divides the attention segment
inline constexpr std::uint32_t kv_segment_tokens = 256;  // of the attention's sums
static_assert(kv_segment_tokens % kv_page_tokens == 0);

using millrace::kv_presets;
using millrace::KvCodecs;
using millrace::KvPolicy;
using millrace::KvPreset;
using millrace::KvProtection;
using millrace::parse_kv_policy;
using millrace::parse_kv_protection;

// Bytes of a page of one layer: codes and parameters of all heads, up to whole cache lines.
std::uint64_t layer_page_bytes(const KvCodecs& codecs, std::uint32_t kv_heads,
                               std::uint32_t head_dim);

struct KvShape {
  std::uint32_t layers = 0, kv_heads = 0, head_dim = 0;
};

// The effective policy.
struct KvLayers {
  std::vector<KvCodecs> layers;
  std::string name() const;  // "r5/r3 x30"; runs of equal layers in order
  // By the definition of the codecs, parameters included, a page's rounding left out.
  double bytes_per_token(const KvShape& shape) const;
  double compression(const KvShape& shape) const;  // against f16, 1 for f16 itself
  friend bool operator==(const KvLayers&, const KvLayers&) = default;
};
// Errors: unsupported_field where the heads cannot be stored so; invalid_value for protection of a
// layer that the model does not have.
Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape);

}  // namespace millrace::engine
