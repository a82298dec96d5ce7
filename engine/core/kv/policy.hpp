#pragma once
// KV policies: which codec stores the keys and the values of each layer.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3"));
//   MILLRACE_ASSIGN(policy.protection, parse_kv_protection("first:2,last:2"));
//   MILLRACE_ASSIGN(KvLayers layers, resolve(policy, {.layers = 30, .head_dim = 64}));
//   layers.name();   // "f16/f16 x2, r5/r3 x26, f16/f16 x2"
//
// A policy is what a user asks for; KvLayers is what it comes to for a model, layer by layer. What
// a model's heads cannot be stored in is refused, never replaced. Thread safety: plain values.
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/kv/codec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t kv_page_tokens = 16;      // divides the attention segment
inline constexpr std::uint32_t kv_segment_tokens = 256;  // of the attention's sums
static_assert(kv_segment_tokens % kv_page_tokens == 0);

// Of one layer. Centered keys are stored less the mean key (key_means.hpp).
struct KvCodecs {
  KvCodec key, value;
  bool centered = false;
  std::string name() const { return codec_name(key) + "/" + codec_name(value); }
  friend auto operator<=>(const KvCodecs&, const KvCodecs&) = default;
};

// Bytes of a page of one layer: codes and parameters of all heads, up to whole cache lines.
std::uint64_t layer_page_bytes(const KvCodecs& codecs, std::uint32_t kv_heads,
                               std::uint32_t head_dim);

// Layers kept in f16: so many at the beginning and at the end, and others by number. Besides, those
// whose keys have outliers are protected when a model is loaded (outliers.hpp), unless `automatic`
// is off.
struct KvProtection {
  std::uint32_t first = 0, last = 0;
  std::vector<std::uint32_t> layers{};
  bool automatic = true;
  bool covers(std::uint32_t layer, std::uint32_t layer_count) const;
  std::string name() const;  // as a policy's text ends: "", "~2,2", "~0,1+layer:5+none"
  friend bool operator==(const KvProtection&, const KvProtection&) = default;
};

struct KvPolicy {
  KvCodecs codecs;
  KvProtection protection;
  std::string name() const { return codecs.name() + protection.name(); }  // "r5/r3~2,2"
  friend bool operator==(const KvPolicy&, const KvPolicy&) = default;
};

// A name for a policy; `note` says in a few words when to take it.
struct KvPreset {
  std::string_view name, policy, note;
};
std::span<const KvPreset> kv_presets();

// A preset's name, a codec for both, or "KEY/VALUE"; each with what is protected: "~FIRST,LAST" for
// the layers at the ends, then any of "+first:N", "+last:N", "+layer:N" and "+none", which turns
// automatic protection off. Errors: invalid_value, naming what there is.
Result<KvPolicy> parse_kv_policy(std::string_view text);
// "auto", or any of "first:N", "last:N", "layer:N" and "none" with commas between. Errors:
// invalid_value.
Result<KvProtection> parse_kv_protection(std::string_view text);

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
