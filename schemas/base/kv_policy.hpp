#pragma once
// KV policies by name: what `--kv` takes, what a job asks for with `kv`, what engines say they run.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3"));
//   MILLRACE_ASSIGN(policy.protection, parse_kv_protection("first:2,last:2"));
//   policy.name();   // "r5/r3~2,2"
//
// A codec says how one token's head vector is stored:
//
//   f16      halves                                                        16 bits an element
//   q<b>g<g> affine: b-bit codes, a half scale and bias per g channels     b + 32/g
//   r<b>     rotated codebook: b-bit indices, one half norm a vector       b + 16/head size
//
// What a policy comes to for a model is the engine's to say (engine/core/kv/policy.hpp). Thread
// safety: plain values.
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

enum class CodecKind : std::uint8_t { f16, affine, rotated };

struct KvCodec {
  CodecKind kind = CodecKind::f16;
  std::uint32_t bits = 16;  // of a code
  std::uint32_t group = 0;  // channels that share scale and bias; 0 unless affine
  friend auto operator<=>(const KvCodec&, const KvCodec&) = default;
};

std::string codec_name(const KvCodec& codec);  // "q8g64"
// Errors: invalid_value, naming what there is.
Result<KvCodec> parse_kv_codec(std::string_view text);

// Of one layer. Centered keys are stored less the mean key (key_means.hpp).
struct KvCodecs {
  KvCodec key, value;
  bool centered = false;
  std::string name() const { return codec_name(key) + "/" + codec_name(value); }
  friend auto operator<=>(const KvCodecs&, const KvCodecs&) = default;
};

// Layers kept in f16: so many at the beginning and at the end, and others by number. Besides, those
// whose keys have outliers are protected when a model is loaded, unless `automatic`
// is off.
struct KvProtection {
  std::uint32_t first = 0, last = 0;
  std::vector<std::uint32_t> layers{};
  bool automatic = true;
  bool covers(std::uint32_t layer, std::uint32_t layer_count) const;
  std::string name() const;    // as a policy's text ends: "", "~2,2", "~0,1+layer:5+none"
  std::string option() const;  // as --kv-protect takes it: "auto", "first:2,last:2", "none"
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

// One name for what means the same: a policy's, "r5/r3" for "k5v3", or an effective policy as
// results give it, "f16/f16 x2, r5/r3 x28". Errors: invalid_value, naming what there is.
Result<std::string> canonical_kv(std::string_view text);
// The other way round: the preset that a canonical name stands for, where there is one.
std::string_view kv_display_name(std::string_view canonical);

}  // namespace millrace
