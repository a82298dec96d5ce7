#pragma once
// KV policies by name: the values of `--kv`, of a job's `kv`, and of an engine's announcements.
//
//   MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy("k5v3"));
//   MILLRACE_ASSIGN(policy.protection, parse_kv_protection("first:2,last:2"));
//   policy.name();   // "r5/r3~2,2"
//
// A codec determines how the head vector of one token is stored:
//
//   f16      halves                                                        16 bits an element
//   f32      floats, for checks of arithmetic, not for production          32
//   q<b>g<g> affine: b-bit codes, a half scale and bias per g channels     b + 32/g
//   r<b>     rotated codebook: b-bit indices, one half norm a vector       b + 16/head size
//
// The engine resolves a policy for a model, layer by layer (engine/core/kv/policy.hpp).
// Thread safety: plain values.
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace {

enum class CodecKind : std::uint8_t { plain, affine, rotated };

struct KvCodec {
  CodecKind kind = CodecKind::plain;
  std::uint32_t bits = 16;  // of a code, or of a plain number
  std::uint32_t group = 0;  // channels that share scale and bias; 0 unless affine
  bool packed() const { return kind != CodecKind::plain; }
  friend auto operator<=>(const KvCodec&, const KvCodec&) = default;
};

std::string codec_name(const KvCodec& codec);  // "q8g64"
// Errors: invalid_value; the hint names all codecs.
Result<KvCodec> parse_kv_codec(std::string_view text);

// The codecs of one layer. Centered keys are stored as their difference from the mean key
// (key_means.hpp).
struct KvCodecs {
  KvCodec key, value;
  bool centered = false;
  // Values are channels of the keys (multi-head latent attention): nothing is stored for them, and
  // `value` is the codec of the keys. Only models say so, no user: "f16/key".
  bool in_key = false;
  std::string name() const;
  KvCodecs unpacked() const;  // the same with f16 in place of packed codecs
  friend auto operator<=>(const KvCodecs&, const KvCodecs&) = default;
};

// The layers kept in f16 where the policy packs them: the first and the last few, and others by
// number. Unless `automatic` is off, loading a model also protects the layers whose keys have
// outliers.
struct KvProtection {
  std::uint32_t first = 0, last = 0;
  std::vector<std::uint32_t> layers{};
  bool automatic = true;
  bool covers(std::uint32_t layer, std::uint32_t layer_count) const;
  std::string name() const;    // the end of a policy's text: "", "~2,2", "~0,1+layer:5+none"
  std::string option() const;  // the value of --kv-protect: "auto", "first:2,last:2", "none"
  friend bool operator==(const KvProtection&, const KvProtection&) = default;
};

struct KvPolicy {
  KvCodecs codecs;
  KvProtection protection;
  std::string name() const { return codecs.name() + protection.name(); }  // "r5/r3~2,2"
  friend bool operator==(const KvPolicy&, const KvPolicy&) = default;
};

// A name for a policy; `note` describes it in a few words.
struct KvPreset {
  std::string_view name, policy, note;
};
std::span<const KvPreset> kv_presets();

// Parses a preset's name, one codec for both, or "KEY/VALUE", each with an optional protection:
// "~FIRST,LAST" for the layers at the ends, then any of "+first:N", "+last:N", "+layer:N" and
// "+none", which turns automatic protection off. Errors: invalid_value; the hint names the presets
// and codecs.
Result<KvPolicy> parse_kv_policy(std::string_view text);
// Parses "auto", or any of "first:N", "last:N", "layer:N" and "none", separated by commas. Errors:
// invalid_value.
Result<KvProtection> parse_kv_protection(std::string_view text);

// The canonical name of a policy ("r5/r3" for "k5v3") or of an effective policy as results give it
// ("f16/f16 x2, r5/r3 x28"): equal policies have equal names. Errors: invalid_value, as above.
Result<std::string> canonical_kv(std::string_view text);
// The preset with this canonical name; the canonical name itself where there is none.
std::string_view kv_display_name(std::string_view canonical);

}  // namespace millrace
