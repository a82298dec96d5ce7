#include "engine/core/families/read_spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

namespace millrace::engine {
namespace {

struct AttentionShape {
  std::uint32_t window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
};
struct Flat {
  std::string architecture, name;
  std::uint32_t layers = 0, width = 0, ffn_width = 0, vocabulary = 0, context_tokens = 0;
  std::uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  AttentionShape attention{};
  float norm_epsilon = 0.0f;
  RopeKind rope = RopeKind::pairs;
  std::uint32_t rope_dim = 0;
  double rope_base = 10000.0;
  double rope_linear_factor = 1.0;
  std::vector<float> rope_frequency_factors;
  bool tied_output = false;
};

ModelSpec layered(const Flat& flat) {
  ModelSpec out{.architecture = flat.architecture,
                .name = flat.name,
                .width = flat.width,
                .vocabulary = flat.vocabulary,
                .context_tokens = flat.context_tokens,
                .norm_epsilon = flat.norm_epsilon,
                .tied_output = flat.tied_output,
                .layers = {}};
  LayerSpec layer;
  layer.attention = {
      .heads = flat.heads,
      .kv_heads = flat.kv_heads,
      .head_dim = flat.head_dim,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(flat.head_dim))),
      .window = flat.attention.window,
      .soft_cap = flat.attention.soft_cap,
      .sinks = flat.attention.sinks,
      .rope = {.kind = flat.rope,
               .dim = flat.rope_dim,
               .base = flat.rope_base,
               .linear_factor = flat.rope_linear_factor,
               .divisors = flat.rope_frequency_factors}};
  layer.feed_forward.width = flat.ffn_width;
  out.layers.assign(flat.layers, layer);
  return out;
}

std::unexpected<Error> unsupported(const GgufFile& file, const std::string& what) {
  return fail(
      Code::unsupported_architecture, file.source() + ": " + what,
      "this version runs models of the architectures llama (such as SmolLM2 and Llama 3) and "
      "qwen2 (Qwen 2 and 2.5)");
}

std::unexpected<Error> damaged(const GgufFile& file, const std::string& what) {
  return fail(Code::gguf_malformed, file.source() + ": " + what,
              "the file is damaged: download or convert it again");
}

// Properties of an architecture that its files do not state. All architectures have the same keys
// and tensors, biases among them.
struct Architecture {
  std::string_view name;
  RopeKind rope;
  bool one_window;  // a sliding window applies to every layer, as in Mistral's first models
};
constexpr auto architectures = std::to_array<Architecture>({
    {"llama", RopeKind::pairs, true},
    {"qwen2", RopeKind::halves, false},  // only to later layers, and no key says from which on
});

// Reads keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : metadata_(file.metadata()), prefix_(std::string(architecture) + ".") {}
  template <class T>
  Result<T> get(std::string_view name) const {
    return metadata_.get<T>(prefix_ + std::string(name));
  }
  template <class T>
  Result<T> get_or(std::string_view name, T fallback) const {
    return metadata_.get_or<T>(prefix_ + std::string(name), fallback);
  }
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

// Refuses a factor unless it has no effect: it is absent, `neutral`, or 0, which converters write
// for unset.
Status refuse_unless_neutral(const GgufFile& file, const Keys& keys, std::string_view name,
                             float neutral) {
  MILLRACE_ASSIGN(const float value, keys.get_or<float>(name, 0.0f));
  if (value == 0.0f || value == neutral) return {};
  return unsupported(file, keys.full(name) + " = " + std::to_string(value) + " is not supported");
}

Status refuse_features(const GgufFile& file, const Keys& keys, const Flat& spec) {
  for (const char* name : {"expert_count", "expert_used_count"}) {
    MILLRACE_ASSIGN(const auto count, keys.get_or<std::uint32_t>(name, 0));
    if (count > 0) {
      return unsupported(file, keys.full(name) + ": a mixture of experts is not supported");
    }
  }
  MILLRACE_ASSIGN(const bool causal, keys.get_or<bool>("attention.causal", true));
  if (!causal)
    return unsupported(file, keys.full("attention.causal") + " = false is not supported");
  for (const char* name : {"logit_scale", "residual_scale", "embedding_scale"}) {
    MILLRACE_TRY(refuse_unless_neutral(file, keys, name, 1.0f));
  }
  const auto head_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  MILLRACE_TRY(refuse_unless_neutral(file, keys, "attention.scale", head_scale));
  for (const char* name :
       {"final_logit_softcapping", "attention.clamp_kqv", "attention.max_alibi_bias"}) {
    MILLRACE_TRY(refuse_unless_neutral(file, keys, name, 0.0f));
  }
  return {};
}

// Reads windows, soft caps and sinks. A window as large as the context has no effect.
Status read_attention(const GgufFile& file, const Keys& keys, const Architecture& architecture,
                      Flat& spec) {
  AttentionShape& shape = spec.attention;
  MILLRACE_ASSIGN(shape.window, keys.get_or<std::uint32_t>("attention.sliding_window", 0));
  if (shape.window >= spec.context_tokens) shape.window = 0;
  const std::string pattern = keys.full("attention.sliding_window_pattern");
  if (shape.window > 0 && (!architecture.one_window || file.metadata().contains(pattern))) {
    return unsupported(file, keys.full("attention.sliding_window") + " = " +
                                 std::to_string(shape.window) +
                                 ": a sliding window in only some layers is not supported");
  }
  MILLRACE_ASSIGN(shape.soft_cap, keys.get_or<float>("attn_logit_softcapping", 0.0f));
  if (shape.soft_cap != 0.0f && !(shape.soft_cap >= 1e-3f && shape.soft_cap <= 1e6f)) {
    return damaged(file, keys.full("attn_logit_softcapping") + " = " +
                             std::to_string(shape.soft_cap) + " is outside 0.001 to 1e6");
  }
  shape.sinks = std::ranges::any_of(file.tensors(), [](const Tensor& tensor) {
    return tensor.name.ends_with(".attn_sinks.weight");
  });
  return {};
}

// Whether frequencies may be divided by this factor: limits every angle to the accurate range.
bool fits_rotary(double factor) {
  return factor >= 1.0 / 64 && factor <= 1e6;
}

Status read_rope(const GgufFile& file, const Keys& keys, Flat& spec) {
  MILLRACE_ASSIGN(spec.rope_dim, keys.get_or<std::uint32_t>("rope.dimension_count", spec.head_dim));
  MILLRACE_ASSIGN(spec.rope_base, keys.get_or<double>("rope.freq_base", 10000.0));
  // A factor without a kind is linear; 0 means unset.
  MILLRACE_ASSIGN(const auto kind,
                  keys.get_or<std::string_view>("rope.scaling.type", std::string_view("linear")));
  MILLRACE_ASSIGN(const double legacy, keys.get_or<double>("rope.scale_linear", 0.0));
  MILLRACE_ASSIGN(const double factor, keys.get_or<double>("rope.scaling.factor", legacy));
  if (kind != "none" && kind != "linear") {
    return unsupported(
        file, keys.full("rope.scaling.type") + " = " + std::string(kind) + " is not supported");
  }
  if (kind == "linear" && factor != 0.0) spec.rope_linear_factor = factor;
  if (spec.rope_dim == 0 || spec.rope_dim % 2 != 0 || spec.rope_dim > spec.head_dim) {
    return damaged(file, keys.full("rope.dimension_count") + " = " + std::to_string(spec.rope_dim) +
                             " does not fit heads of " + std::to_string(spec.head_dim));
  }
  if (!(spec.rope_base >= 1.0 && spec.rope_base <= 1e12) || !fits_rotary(spec.rope_linear_factor)) {
    return damaged(file, "rotary base " + std::to_string(spec.rope_base) + ", factor " +
                             std::to_string(spec.rope_linear_factor) +
                             ": the base must be 1 to 1e12, the factor 1/64 to 1e6");
  }
  const Tensor* const factors = file.find_tensor("rope_freqs.weight");
  if (factors == nullptr) return {};
  if (factors->type != TensorType::f32 || factors->elements() != spec.rope_dim / 2) {
    return damaged(
        file, "rope_freqs.weight must hold " + std::to_string(spec.rope_dim / 2) + " F32 values");
  }
  spec.rope_frequency_factors.resize(spec.rope_dim / 2);
  std::memcpy(spec.rope_frequency_factors.data(), factors->data.data(), factors->data.size());
  const bool fit = std::ranges::all_of(spec.rope_frequency_factors,
                                       [](float each) { return fits_rotary(double{each}); });
  if (fit) return {};
  return damaged(file, "rope_freqs.weight holds a value outside 1/64 to 1e6");
}

Status read_heads(const GgufFile& file, const Keys& keys, Flat& spec) {
  MILLRACE_ASSIGN(spec.heads, keys.get<std::uint32_t>("attention.head_count"));
  MILLRACE_ASSIGN(spec.kv_heads, keys.get_or<std::uint32_t>("attention.head_count_kv", spec.heads));
  const bool counts_fit =
      spec.heads > 0 && spec.kv_heads > 0 && spec.heads % spec.kv_heads == 0 && spec.heads <= 1024;
  if (!counts_fit) {
    return damaged(file, std::to_string(spec.heads) + " heads and " +
                             std::to_string(spec.kv_heads) +
                             " KV heads: the heads must be a multiple of the KV heads, up to 1024");
  }
  MILLRACE_ASSIGN(spec.head_dim,
                  keys.get_or<std::uint32_t>("attention.key_length", spec.width / spec.heads));
  MILLRACE_ASSIGN(const auto value_dim,
                  keys.get_or<std::uint32_t>("attention.value_length", spec.head_dim));
  if (spec.head_dim == 0 || spec.head_dim % 16 != 0 || spec.head_dim > 512 ||
      value_dim != spec.head_dim) {
    return unsupported(file,
                       "heads of " + std::to_string(spec.head_dim) + " key and " +
                           std::to_string(value_dim) +
                           " value channels: both must be the same multiple of 16, up to 512");
  }
  return {};
}

// The most shares of 2^40 that a sum of 64 bits holds (kernels/sampler/row.cl).
constexpr std::uint64_t most_vocabulary = std::uint64_t{1} << 23;

Status read_sizes(const GgufFile& file, const Keys& keys, Flat& spec) {
  MILLRACE_ASSIGN(spec.layers, keys.get<std::uint32_t>("block_count"));
  MILLRACE_ASSIGN(spec.width, keys.get<std::uint32_t>("embedding_length"));
  MILLRACE_ASSIGN(spec.ffn_width, keys.get<std::uint32_t>("feed_forward_length"));
  MILLRACE_ASSIGN(spec.context_tokens, keys.get<std::uint32_t>("context_length"));
  MILLRACE_ASSIGN(spec.norm_epsilon, keys.get<float>("attention.layer_norm_rms_epsilon"));
  MILLRACE_ASSIGN(const Tensor* embedding, file.tensor("token_embd.weight"));
  spec.vocabulary =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(embedding->rows(), most_vocabulary));
  const auto within = [](std::uint32_t value, std::uint32_t most) {
    return value > 0 && value <= most;
  };
  if (!within(spec.layers, 1024) || !within(spec.width, 1u << 17) ||
      !within(spec.ffn_width, 1u << 19) || !within(spec.context_tokens, 1u << 24) ||
      embedding->rows() != spec.vocabulary ||
      !(spec.norm_epsilon > 0.0f && spec.norm_epsilon < 1.0f)) {
    return damaged(file, "impossible sizes: " + std::to_string(spec.layers) + " layers, " +
                             std::to_string(spec.width) + " wide, feed-forward " +
                             std::to_string(spec.ffn_width) + ", context " +
                             std::to_string(spec.context_tokens) + ", vocabulary " +
                             std::to_string(embedding->rows()) + ", norm's epsilon " +
                             std::to_string(spec.norm_epsilon));
  }
  return {};
}

constexpr auto layer_tensors = std::to_array<std::string_view>({
    "attn_norm.weight",
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_output.weight",
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_output.bias",
    "attn_sinks.weight",
    "ffn_norm.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
    "ffn_gate.bias",
    "ffn_up.bias",
    "ffn_down.bias",
});
constexpr auto model_tensors = std::to_array<std::string_view>(
    {"token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"});

bool is_known_tensor(std::string_view name, std::uint32_t layers) {
  if (std::ranges::find(model_tensors, name) != model_tensors.end()) return true;
  if (!name.starts_with("blk.")) return false;
  const auto dot = name.find('.', 4);
  if (dot == std::string_view::npos) return false;
  std::uint32_t layer = 0;
  const auto parsed = std::from_chars(name.data() + 4, name.data() + dot, layer);
  if (parsed.ec != std::errc() || parsed.ptr != name.data() + dot || layer >= layers) return false;
  return std::ranges::find(layer_tensors, name.substr(dot + 1)) != layer_tensors.end();
}

}  // namespace

Result<ModelSpec> read_spec(const GgufFile& file) {
  Flat spec;
  MILLRACE_ASSIGN(const auto architecture,
                  file.metadata().get<std::string_view>("general.architecture"));
  const auto* const known = std::ranges::find(architectures, architecture, &Architecture::name);
  if (known == architectures.end()) {
    return unsupported(file, "architecture \"" + std::string(architecture) + "\" is not supported");
  }
  spec.architecture = architecture;
  spec.rope = known->rope;
  MILLRACE_ASSIGN(const auto name,
                  file.metadata().get_or<std::string_view>("general.name", architecture));
  spec.name = name;
  const Keys keys(file, architecture);
  MILLRACE_TRY(read_sizes(file, keys, spec));
  MILLRACE_TRY(read_heads(file, keys, spec));
  MILLRACE_TRY(read_rope(file, keys, spec));
  MILLRACE_TRY(read_attention(file, keys, *known, spec));
  MILLRACE_TRY(refuse_features(file, keys, spec));
  spec.tied_output = file.find_tensor("output.weight") == nullptr;
  for (const Tensor& tensor : file.tensors()) {
    if (!is_known_tensor(tensor.name, spec.layers)) {
      return unsupported(file, "tensor \"" + std::string(tensor.name) + "\" belongs to no " +
                                   spec.architecture + " model of " + std::to_string(spec.layers) +
                                   " layers");
    }
  }
  return layered(spec);
}

}  // namespace millrace::engine
