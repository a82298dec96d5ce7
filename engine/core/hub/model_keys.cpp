#include "engine/core/hub/model_keys.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace millrace::engine {
namespace {

using Number = std::uint32_t;

// Settings that mean the same in all families.
constexpr struct {
  std::string_view from, to;
} counts[] = {
    {"vocab_size", "vocab_size"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"moe_layer_start_index", "leading_dense_block_count"},
    {"moe_layer_interval", "interleave_moe_layer_step"},
    {"moe_num_shared_experts", "expert_shared_count"},
};
constexpr struct {
  std::string_view from, to;
} numbers[] = {
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"layer_norm_epsilon", "attention.layer_norm_epsilon"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"logit_scale", "logit_scale"},
};
constexpr struct {
  std::string_view from, to;
} granite_scales[] = {
    {"attention_multiplier", "attention.scale"},
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
};

// Families whose layers differ write some of these for each layer (layer_keys.cpp).
Status write_sizes(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto layers, config.get<Number>("num_hidden_layers"));
  MILLRACE_ASSIGN(const auto width, config.get<Number>("hidden_size"));
  MILLRACE_ASSIGN(const auto heads, config.get<Number>("num_attention_heads"));
  MILLRACE_ASSIGN(const auto kv_heads, config.get_or<Number>("num_key_value_heads", heads));
  MILLRACE_ASSIGN(const auto head_dim, read_head_dim(config));
  MILLRACE_ASSIGN(const auto experts, read_expert_count(config));
  keys.put("block_count", layers);
  keys.put("embedding_length", width);
  keys.put("attention.head_count", heads);
  const bool states_widths = family.architecture == "gemma4" || family.layer_kinds.contains("mlp");
  // Of a model whose layers all have experts, nothing reads the width.
  if (!states_widths && (experts == 0 || config.has("intermediate_size"))) {
    MILLRACE_ASSIGN(const auto inner, config.get<Number>("intermediate_size"));
    keys.put("feed_forward_length", inner);
  }
  if (family.kv_heads == KvHeads::one) keys.put("attention.head_count_kv", Number{1});
  if (family.kv_heads == KvHeads::alike && heads > 0) {
    keys.put("attention.head_count_kv", kv_heads);
  }
  if (family.kv_heads != KvHeads::one && family.architecture != "gemma4" && heads > 0) {
    keys.put("attention.key_length", head_dim);
    keys.put("attention.value_length", head_dim);
  }
  for (const auto& [from, to] : counts) MILLRACE_TRY(keys.copy<Number>(config, from, to));
  for (const auto& [from, to] : numbers) MILLRACE_TRY(keys.copy<double>(config, from, to));
  return {};
}

// The layers whose attention has a window, as the file or its family says.
Status write_windows(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto window, config.get_or<Number>("sliding_window", 0));
  // These classes have the setting, but no window unless another one says so.
  MILLRACE_ASSIGN(const bool uses, config.get_or<bool>("use_sliding_window",
                                                       !family.architecture.starts_with("qwen")));
  const bool always = family.architecture == "phi3";
  if (always || (uses && window > 0)) keys.put("attention.sliding_window", uses ? window : 0);
  if (!uses || window == 0) return {};
  MILLRACE_ASSIGN(const auto kinds, config.find<std::vector<std::string>>("layer_types"));
  if (kinds && std::ranges::find(*kinds, "conv") == kinds->end()) {
    std::vector<bool> windowed;
    for (const std::string& kind : *kinds) windowed.push_back(kind == "sliding_attention");
    keys.put("attention.sliding_window_pattern", windowed);
    return {};
  }
  for (const char* const name : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (!config.has(name)) continue;
    return keys.copy<Number>(config, name, "attention.sliding_window_pattern");
  }
  return {};
}

Status write_experts(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto count, read_expert_count(config));
  if (count == 0) return {};
  keys.put("expert_count", count);
  for (const char* const name : {"num_experts_per_tok", "num_experts_per_token", "moe_k"}) {
    if (!config.has(name)) continue;
    MILLRACE_TRY(keys.copy<Number>(config, name, "expert_used_count"));
    break;
  }
  if (!config.has("moe_intermediate_size") && family.architecture == "gpt-oss") {
    MILLRACE_TRY(keys.copy<Number>(config, "intermediate_size", "expert_feed_forward_length"));
  }
  if (config.has("moe_num_shared_experts")) {
    MILLRACE_ASSIGN(const auto width, config.get<Number>("moe_intermediate_size"));
    MILLRACE_ASSIGN(const auto shared, config.get<Number>("moe_num_shared_experts"));
    if (shared > 0) keys.put("expert_shared_feed_forward_length", width * shared);
  }
  const bool normalizes = family.architecture != "gpt-oss" && config.has("norm_topk_prob");
  if (normalizes) MILLRACE_TRY(keys.copy<bool>(config, "norm_topk_prob", "expert_weights_norm"));
  constexpr Number softmax = 1, sigmoid = 2;
  MILLRACE_ASSIGN(const auto function, config.get_or<std::string>("scoring_func", ""));
  if (function == "sigmoid" || family.architecture == "glm4moe" ||
      family.architecture == "minimax-m2") {
    keys.put("expert_gating_func", sigmoid);
  } else if (function == "softmax") {
    keys.put("expert_gating_func", softmax);
  } else if (!function.empty()) {
    return refuse_setting(config, "scoring_func = " + function);
  }
  return {};
}

// Layers that differ where the engine takes them as alike.
Status refuse_mixed_layers(const Settings& config) {
  MILLRACE_ASSIGN(const auto step, config.get_or<Number>("decoder_sparse_step", 1));
  MILLRACE_ASSIGN(const auto dense,
                  config.get_or<std::vector<Number>>("mlp_only_layers", std::vector<Number>()));
  if (step != 1 || !dense.empty()) {
    return refuse_setting(config,
                          "experts in only some layers (decoder_sparse_step, "
                          "mlp_only_layers)");
  }
  MILLRACE_ASSIGN(const auto layers, config.get<Number>("num_hidden_layers"));
  MILLRACE_ASSIGN(const auto last, config.get_or<double>("moe_layer_end_index", -1.0));
  if (last >= 0 && last + 1 < layers) {
    return refuse_setting(config, "moe_layer_end_index before the last layer");
  }
  MILLRACE_ASSIGN(const auto rotates,
                  config.get_or<std::vector<Number>>("no_rope_layers", std::vector<Number>()));
  for (std::size_t i = 0; i < rotates.size(); ++i) {
    if (rotates[i] != ((i + 1) % 4 != 0 ? 1u : 0u)) {
      return refuse_setting(config, "no_rope_layers other than each fourth");
    }
  }
  return {};
}

Status refuse_other_arithmetic(const HubFamily& family, const Settings& config) {
  for (const char* const name : {"hidden_act", "hidden_activation"}) {
    MILLRACE_ASSIGN(const auto given, config.get_or<std::string>(name, ""));
    const bool old_gemma = family.activation != "silu" && given == "gelu";
    if (given.empty() || given == family.activation || old_gemma) continue;
    return refuse_setting(config, std::string(name) + " = " + given);
  }
  MILLRACE_ASSIGN(const auto of_mamba, config.get_or<std::string>("mamba_hidden_act", "silu"));
  if (of_mamba != "silu") return refuse_setting(config, "mamba_hidden_act = " + of_mamba);
  constexpr std::string_view both_ways = "use_bidirectional_attention";
  if (config.is_text(both_ways)) {
    MILLRACE_ASSIGN(const auto which, config.get<std::string>(both_ways));
    if (which != "vision") return refuse_setting(config, std::string(both_ways) + " = " + which);
  }
  for (const std::string_view name : {both_ways, std::string_view("use_parallel_embedding")}) {
    if (config.is_text(name)) continue;
    MILLRACE_ASSIGN(const bool given, config.get_or<bool>(name, false));
    if (given) return refuse_setting(config, std::string(name) + " = true");
  }
  return refuse_mixed_layers(config);
}

Status write_scales(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  if (family.architecture.starts_with("granite")) {
    for (const auto& [from, to] : granite_scales) {
      MILLRACE_TRY(keys.copy<double>(config, from, to));
    }
  }
  if (!family.architecture.starts_with("gemma")) return {};
  MILLRACE_ASSIGN(const auto scaled, config.find<double>("query_pre_attn_scalar"));
  // The architecture has the scale; the reader refuses another one.
  if (scaled) keys.put("attention.scale", static_cast<float>(1.0 / std::sqrt(*scaled)));
  return {};
}

}  // namespace

std::unexpected<Error> refuse_setting(const Settings& config, const std::string& what) {
  return fail(Code::unsupported_architecture, config.source() + ": " + what + " is not supported",
              "use another model");
}

Result<std::uint32_t> read_head_dim(const Settings& config) {
  MILLRACE_ASSIGN(const auto given, config.find<Number>("head_dim"));
  if (given) return *given;
  MILLRACE_ASSIGN(const auto width, config.get<Number>("hidden_size"));
  MILLRACE_ASSIGN(const auto heads, config.get<Number>("num_attention_heads"));
  return heads == 0 ? 0 : width / heads;
}

Result<std::uint32_t> read_expert_count(const Settings& config) {
  for (const char* const name :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    MILLRACE_ASSIGN(const auto count, config.find<Number>(name));
    if (count) return *count;
  }
  return 0;
}

Status write_model_keys(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  MILLRACE_TRY(refuse_other_arithmetic(family, config));
  MILLRACE_TRY(write_sizes(family, config, keys));
  MILLRACE_TRY(write_layer_keys(family, config, keys));
  MILLRACE_TRY(write_windows(family, config, keys));
  MILLRACE_TRY(write_experts(family, config, keys));
  return write_scales(family, config, keys);
}

}  // namespace millrace::engine
