#include "engine/core/kv/policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace millrace::engine {
namespace {

constexpr std::uint64_t line_bytes = 64;

// Measured on a model of 135M parameters, where damage is at its worst (mean KLD in nats).
constexpr std::array<KvPreset, 9> presets{{
    {"f16", "f16/f16", "exact but for rounding to halves"},
    {"q8", "q8g64/q8g64", "1.9x smaller, KLD 0.0005"},
    {"k8v4", "q8g64/r4", "2.5x smaller, KLD 0.007"},
    {"k6v4", "r6/r4", "3.0x smaller, KLD 0.011"},
    {"k5v3", "r5/r3", "3.8x smaller, KLD 0.04"},
    {"k4v3", "r4/r3", "4.3x smaller, KLD 0.09"},
    {"q4", "q4g64/q4g64", "3.6x smaller, KLD 0.13; k5v3 is smaller and closer"},
    {"turboquant-4", "r4/r4", "3.8x smaller, KLD 0.07; k5v3 is closer at the same size"},
    {"turboquant-3.5", "r3/r4", "4.3x smaller, KLD 0.24; k4v3 is closer at the same size"},
}};

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
  for (const auto& [name, codec] : {std::pair{key, &out.key}, std::pair{value, &out.value}}) {
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

// "FIRST,LAST" of a policy's text.
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

// One of "first:N", "last:N", "layer:N" and "none".
Status add_protection(std::string_view part, KvProtection& out) {
  const auto colon = std::min(part.find(':'), part.size());
  const std::string_view what = part.substr(0, colon);
  const auto number = parse_count(part.substr(std::min(colon + 1, part.size())));
  if (part == "none") {
    out.automatic = false;
  } else if (what == "layer" && number) {
    out.layers.push_back(*number);
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
  for (bool more = true; more;) {
    const auto end = text.find(between);
    MILLRACE_TRY(add_protection(text.substr(0, end), out));
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace

std::uint64_t layer_page_bytes(const KvCodecs& codecs, std::uint32_t kv_heads,
                               std::uint32_t head_dim) {
  std::uint64_t head = 0;
  for (const KvCodec& codec : {codecs.key, codecs.value}) {
    head += code_bytes(codec, kv_page_tokens, head_dim) +
            parameter_bytes(codec, kv_page_tokens, head_dim);
  }
  return (kv_heads * head + line_bytes - 1) / line_bytes * line_bytes;
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

std::string KvLayers::name() const {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    out += (i == 0 ? "" : ", ") + layers[i].name() + " x" + std::to_string(end - i);
    i = end;
  }
  return out;
}

double KvLayers::bytes_per_token(const KvShape& shape) const {
  std::uint64_t page = 0;
  for (const KvCodecs& codecs : layers) {
    for (const KvCodec& codec : {codecs.key, codecs.value}) {
      page += code_bytes(codec, kv_page_tokens, shape.head_dim) +
              parameter_bytes(codec, kv_page_tokens, shape.head_dim);
    }
  }
  return static_cast<double>(page) * shape.kv_heads / kv_page_tokens;
}

double KvLayers::compression(const KvShape& shape) const {
  const double halves = 2.0 * 2.0 * shape.kv_heads * shape.head_dim;
  return halves * static_cast<double>(layers.size()) / bytes_per_token(shape);
}

Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape) {
  MILLRACE_TRY(check_head_size(policy.codecs.key, shape.head_dim));
  MILLRACE_TRY(check_head_size(policy.codecs.value, shape.head_dim));
  const KvProtection& kept = policy.protection;
  const auto outside = [&](std::uint32_t layer) { return layer >= shape.layers; };
  if (kept.first > shape.layers || kept.last > shape.layers ||
      std::ranges::any_of(kept.layers, outside)) {
    return fail(Code::invalid_value,
                "KV protection names layers that the model's " + std::to_string(shape.layers) +
                    " do not include",
                "protect fewer layers");
  }
  KvLayers out;
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    out.layers.push_back(kept.covers(i, shape.layers) ? KvCodecs{} : policy.codecs);
  }
  return out;
}

}  // namespace millrace::engine
