#include "schemas/base/kv_policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace millrace {
namespace {

// What stands for the codec of values that are channels of the keys.
constexpr std::string_view in_key_name = "key";

constexpr std::array<std::uint32_t, 6> affine_bits{8, 6, 5, 4, 3, 2};
constexpr std::array<std::uint32_t, 3> affine_groups{32, 64, 128};
constexpr std::array<std::uint32_t, 6> rotated_bits{8, 6, 5, 4, 3, 2};

// KLD: mean nats of SmolLM2-135M, where damage is at its worst, over the first 1,024 tokens of
// perlthrtut as plain text; README's table has the first six with more figures:
//   perldoc -T perlthrtut > T
//   millrace fidelity --text T --context 1024 --contexts 1 --score all --math exact
constexpr std::array<KvPreset, 10> presets{{
    {"f16", "f16/f16", "exact but for rounding to halves"},
    {"q8", "q8g64/q8g64", "1.9x smaller, KLD 0.0005"},
    {"k8v4", "q8g64/r4", "2.5x smaller, KLD 0.0063"},
    {"k6v4", "r6/r4", "3.0x smaller, KLD 0.0092"},
    {"k5v3", "r5/r3", "3.8x smaller, KLD 0.039"},
    {"k4v3", "r4/r3", "4.3x smaller, KLD 0.085"},
    {"q4", "q4g64/q4g64", "3.6x smaller, KLD 0.14; k5v3 is smaller and closer"},
    {"turboquant-4", "r4/r4", "3.8x smaller, KLD 0.075; k5v3 is closer at the same size"},
    {"turboquant-3.5", "r3/r4", "4.3x smaller, KLD 0.24; k4v3 is closer at the same size"},
    {"f32", "f32/f32", "2x larger; for checks of arithmetic, not for production"},
}};

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      text.front() == '0') {
    return std::nullopt;
  }
  return value;
}

bool has(const auto& list, std::optional<std::uint32_t> value) {
  return value && std::ranges::find(list, *value) != list.end();
}

std::optional<std::uint32_t> parse_count(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const KvPreset* find_preset(std::string_view name) {
  const auto found = std::ranges::find(presets, name, &KvPreset::name);
  return found == presets.end() ? nullptr : &*found;
}

std::string preset_names() {
  std::string out;
  for (const KvPreset& preset : presets) {
    out += (out.empty() ? "" : ", ") + std::string(preset.name);
  }
  return out;
}

Result<KvCodecs> parse_codecs(std::string_view text) {
  if (const KvPreset* preset = find_preset(text)) text = preset->policy;
  const auto slash = text.find('/');
  const std::string_view key = text.substr(0, slash);
  const std::string_view value = slash == std::string_view::npos ? key : text.substr(slash + 1);
  KvCodecs out;
  out.in_key = value == in_key_name;
  for (const auto& [name, codec] :
       {std::pair{key, &out.key}, std::pair{out.in_key ? key : value, &out.value}}) {
    auto parsed = parse_kv_codec(name);
    if (!parsed) {
      return fail(
          Code::invalid_value, "KV policy \"" + std::string(text) + "\": " + parsed.error().message,
          "presets are " + preset_names() + "; others are KEY/VALUE, where " + parsed.error().hint);
    }
    *codec = *parsed;
  }
  return out;
}

// Parses "FIRST,LAST" in a policy's text.
Status parse_ends(std::string_view text, KvProtection& out) {
  const auto comma = text.find(',');
  const auto first = parse_count(text.substr(0, comma));
  const auto last =
      comma == std::string_view::npos ? std::nullopt : parse_count(text.substr(comma + 1));
  if (!first || !last) {
    return fail(Code::invalid_value,
                "KV protection \"~" + std::string(text) + "\" is not two counts",
                "write ~FIRST,LAST, like ~2,2 for two layers at each end");
  }
  out.first = *first;
  out.last = *last;
  return {};
}

// Parses one of "first:N", "last:N", "layer:N" and "none".
Status add_protection(std::string_view part, KvProtection& out) {
  const auto colon = std::min(part.find(':'), part.size());
  const std::string_view what = part.substr(0, colon);
  const auto number = parse_count(part.substr(std::min(colon + 1, part.size())));
  if (part == "none") {
    out.automatic = false;
  } else if (what == "layer" && number) {
    const auto at = std::ranges::lower_bound(out.layers, *number);
    if (at == out.layers.end() || *at != *number) out.layers.insert(at, *number);
  } else if ((what == "first" || what == "last") && number) {
    (what == "first" ? out.first : out.last) = *number;
  } else {
    return fail(Code::invalid_value, "KV protection \"" + std::string(part) + "\" names no layers",
                "write first:N, last:N, layer:N or several, like first:2,last:2; none leaves also "
                "layers whose keys have outliers as the policy says, auto protects those alone");
  }
  return {};
}

Status add_protections(std::string_view text, char between, KvProtection& out) {
  if (between == '+' && text.contains(',')) {
    return fail(Code::invalid_value,
                "KV protection \"" + std::string(text) + "\" has commas within a policy",
                "write + there, like k5v3+first:2+last:2; --kv-protect takes commas");
  }
  for (bool more = true; more;) {
    const auto end = text.find(between);
    MILLRACE_TRY(add_protection(text.substr(0, end), out));
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 1);
  }
  return {};
}

// Whether the text is empty or like ", keys centered by 0ab9".
bool says_whose_means(std::string_view text) {
  constexpr std::string_view centered = ", keys centered by ";
  if (text.empty()) return true;
  return text.starts_with(centered) && text.size() > centered.size() &&
         text.find_first_not_of("0123456789abcdef", centered.size()) == std::string_view::npos;
}

// Consecutive layers with the same codecs, as an effective policy writes them: "r5/r3 x28".
struct LayerRun {
  std::string_view codecs;
  std::uint64_t layers = 0;
};

std::optional<LayerRun> parse_layer_run(std::string_view text) {
  const auto times = text.find(" x");
  if (times == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, times);
  const auto layers = parse_number(text.substr(times + 2));
  const auto codecs = parse_codecs(name);
  if (!layers || !codecs || codecs->name() != name) return std::nullopt;
  return LayerRun{name, *layers};
}

// Parses an effective policy and joins runs of equal layers: "r5/r3 x1, r5/r3 x29" becomes
// "r5/r3 x30". None where the text is not an effective policy.
std::optional<std::string> canonical_by_layer(std::string_view text) {
  const std::size_t means_at = std::min(text.find(", keys "), text.size());
  const std::string_view means = text.substr(means_at);
  if (!says_whose_means(means)) return std::nullopt;
  text = text.substr(0, means_at);
  std::vector<LayerRun> runs;
  for (bool more = true; more;) {
    const auto end = text.find(", ");
    const auto run = parse_layer_run(text.substr(0, end));
    if (!run) return std::nullopt;
    if (runs.empty() || runs.back().codecs != run->codecs) runs.push_back({run->codecs, 0});
    runs.back().layers += run->layers;
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 2);
  }
  std::string out;
  for (const LayerRun& run : runs) {
    out += (out.empty() ? "" : ", ") + std::string(run.codecs) + " x" + std::to_string(run.layers);
  }
  return out + std::string(means);
}

// Removes protections without effect: plain codecs need none, and a layer by number may already be
// among the first.
KvPolicy without_repetition(KvPolicy policy) {
  KvProtection& kept = policy.protection;
  if (policy.codecs == policy.codecs.unpacked()) kept = {};
  for (const std::uint32_t layer : kept.layers) {  // in order
    if (layer <= kept.first) kept.first = std::max(kept.first, layer + 1);
  }
  std::erase_if(kept.layers, [&](std::uint32_t layer) { return layer < kept.first; });
  return policy;
}

}  // namespace

std::string codec_name(const KvCodec& codec) {
  switch (codec.kind) {
    case CodecKind::plain:
      return "f" + std::to_string(codec.bits);
    case CodecKind::affine:
      return "q" + std::to_string(codec.bits) + "g" + std::to_string(codec.group);
    case CodecKind::rotated:
      return "r" + std::to_string(codec.bits);
  }
  return "unknown";
}

Result<KvCodec> parse_kv_codec(std::string_view text) {
  if (text == "f16") return KvCodec{};
  if (text == "f32") return KvCodec{CodecKind::plain, 32, 0};
  if (text.starts_with('r') && text.size() > 1) {
    const auto bits = parse_number(text.substr(1));
    if (has(rotated_bits, bits)) return KvCodec{CodecKind::rotated, *bits, 0};
  }
  const auto g = text.find('g');
  if (text.starts_with('q') && g != std::string_view::npos && g > 1 && g + 1 < text.size()) {
    const auto bits = parse_number(text.substr(1, g - 1)), group = parse_number(text.substr(g + 1));
    if (has(affine_bits, bits) && has(affine_groups, group)) {
      return KvCodec{CodecKind::affine, *bits, *group};
    }
  }
  return fail(Code::invalid_value, "there is no KV codec \"" + std::string(text) + "\"",
              "codecs are f16; q8, q6, q5, q4, q3 or q2 with g32, g64 or g128, like q8g64; r8, r6, "
              "r5, r4, r3 or r2; and f32, for checks of arithmetic");
}

std::string KvCodecs::name() const {
  return codec_name(key) + "/" + (in_key ? std::string(in_key_name) : codec_name(value));
}

KvCodecs KvCodecs::unpacked() const {
  KvCodecs out = *this;
  for (KvCodec* codec : {&out.key, &out.value}) {
    if (codec->packed()) *codec = {};
  }
  return out;
}

bool KvProtection::covers(std::uint32_t layer, std::uint32_t layer_count) const {
  return layer < first || layer_count - layer <= last ||
         std::ranges::find(layers, layer) != layers.end();
}

std::string KvProtection::name() const {
  std::string out;
  if (first > 0 || last > 0) out = "~" + std::to_string(first) + "," + std::to_string(last);
  for (const std::uint32_t layer : layers) out += "+layer:" + std::to_string(layer);
  return automatic ? out : out + "+none";
}

std::string KvProtection::option() const {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ",") + part; };
  if (first > 0) add("first:" + std::to_string(first));
  if (last > 0) add("last:" + std::to_string(last));
  for (const std::uint32_t layer : layers) add("layer:" + std::to_string(layer));
  if (!automatic) add("none");
  return out.empty() ? "auto" : out;
}

std::span<const KvPreset> kv_presets() {
  return presets;
}

Result<KvPolicy> parse_kv_policy(std::string_view text) {
  KvPolicy policy;
  const auto plus = text.find('+');
  const std::string_view plain = text.substr(0, plus);
  const auto ends = plain.find('~');
  if (ends != std::string_view::npos) {
    MILLRACE_TRY(parse_ends(plain.substr(ends + 1), policy.protection));
  }
  if (plus != std::string_view::npos) {
    MILLRACE_TRY(add_protections(text.substr(plus + 1), '+', policy.protection));
  }
  MILLRACE_ASSIGN(policy.codecs, parse_codecs(plain.substr(0, ends)));
  return policy;
}

Result<KvProtection> parse_kv_protection(std::string_view text) {
  KvProtection out;
  if (text != "auto") MILLRACE_TRY(add_protections(text, ',', out));
  return out;
}

Result<std::string> canonical_kv(std::string_view text) {
  if (auto by_layer = canonical_by_layer(text)) return *std::move(by_layer);
  MILLRACE_ASSIGN(const KvPolicy policy, parse_kv_policy(text));
  return without_repetition(policy).name();
}

std::string_view kv_display_name(std::string_view canonical) {
  const auto found = std::ranges::find(presets, canonical, &KvPreset::policy);
  return found == presets.end() ? canonical : found->name;
}

}  // namespace millrace
