// Keys of models whose layers differ, of recurrences, of latent attention and of Gemma 4.
#include <algorithm>
#include <cmath>
#include <span>

#include "engine/core/hub/model_keys.hpp"
#include "engine/core/hub/uniform_settings.hpp"

namespace millrace::engine {
namespace {

using Number = std::uint32_t;
using Numbers = std::vector<Number>;
using Kinds = std::vector<std::string>;

void put_numbers(ModelKeys& keys, std::string_view name, const Numbers& values) {
  keys.put(name, std::span<const Number>(values));
}

// One number for all layers, or a list if they differ.
void put_by_layer(ModelKeys& keys, std::string_view name, const Numbers& values) {
  if (values.empty() || std::ranges::count(values, values[0]) == std::ssize(values)) {
    keys.put(name, values.empty() ? 0 : values[0]);
  } else {
    put_numbers(keys, name, values);
  }
}

Status refuse_limits(const Settings& config) {
  for (const char* const name : {"use_conv_bias", "mamba_conv_bias"}) {
    MILLRACE_ASSIGN(const bool has, config.get_or<bool>(name, true));
    if (!has) return refuse_setting(config, std::string(name) + " = false");
  }
  MILLRACE_ASSIGN(const auto limits, config.find<std::vector<double>>("time_step_limit"));
  const bool none = !limits || (limits->size() == 2 && limits->front() <= 0.0 &&  //
                                std::isinf(limits->back()) && limits->back() > 0.0);
  if (!none) return refuse_setting(config, "time_step_limit other than 0 to infinity");
  MILLRACE_ASSIGN(const bool normed, config.get_or<bool>("mamba_rms_norm", false));
  MILLRACE_ASSIGN(const bool first, config.get_or<bool>("mamba_norm_before_gate", false));
  if (normed && first) return refuse_setting(config, "mamba_norm_before_gate = true");
  return {};
}

Status write_mamba(const Settings& config, ModelKeys& keys) {
  MILLRACE_TRY(refuse_limits(config));
  MILLRACE_ASSIGN(const auto heads, config.get<Number>("mamba_n_heads"));
  MILLRACE_ASSIGN(const auto width, config.get<Number>("hidden_size"));
  MILLRACE_ASSIGN(const auto expand, config.get_or<Number>("mamba_expand", 2));
  MILLRACE_ASSIGN(const auto head_dim, config.get_or<Number>("mamba_d_head", 0));
  const Number implied = head_dim > 0 ? heads * head_dim : expand * width;
  MILLRACE_ASSIGN(const auto inner, config.get_or<Number>("mamba_d_ssm", implied));
  if (head_dim > 0 && std::uint64_t{heads} * head_dim != inner) {
    return fail(Code::folder_malformed,
                config.source() + ": " + std::to_string(heads) + " Mamba heads of " +
                    std::to_string(head_dim) + " channels do not make " + std::to_string(inner),
                "the file is damaged: download it again");
  }
  keys.put("ssm.inner_size", inner);
  keys.put("ssm.time_step_rank", heads);
  for (const auto& [from, to] :
       {std::pair{"mamba_d_conv", "ssm.conv_kernel"}, std::pair{"mamba_d_state", "ssm.state_size"},
        std::pair{"mamba_n_groups", "ssm.group_count"}}) {
    MILLRACE_ASSIGN(const auto value, config.get<Number>(from));
    keys.put(to, value);
  }
  return {};
}

Status write_delta_net(const Settings& config, const Kinds& kinds, ModelKeys& keys) {
  MILLRACE_ASSIGN(const bool gated, config.get_or<bool>("attn_output_gate", true));
  if (!gated) return refuse_setting(config, "attn_output_gate = false");
  MILLRACE_ASSIGN(const auto heads, config.get<Number>("linear_num_value_heads"));
  MILLRACE_ASSIGN(const auto value_dim, config.get<Number>("linear_value_head_dim"));
  keys.put("ssm.time_step_rank", heads);
  keys.put("ssm.inner_size", heads * value_dim);
  for (const auto& [from, to] : {std::pair{"linear_conv_kernel_dim", "ssm.conv_kernel"},
                                 std::pair{"linear_key_head_dim", "ssm.state_size"},
                                 std::pair{"linear_num_key_heads", "ssm.group_count"},
                                 std::pair{"full_attention_interval", "full_attention_interval"}}) {
    MILLRACE_ASSIGN(const auto value, config.get<Number>(from));
    keys.put(to, value);
  }
  std::vector<bool> recurrent;
  for (const std::string& kind : kinds) recurrent.push_back(kind == "linear_attention");
  keys.put("attention.recurrent_layers", recurrent);
  return {};
}

Status write_latent(const Settings& config, ModelKeys& keys) {
  MILLRACE_ASSIGN(const bool pairs, config.get_or<bool>("rope_interleave", true));
  if (!pairs) return refuse_setting(config, "rope_interleave = false");
  MILLRACE_ASSIGN(const auto step, config.get_or<Number>("moe_layer_freq", 1));
  if (step != 1) return refuse_setting(config, "moe_layer_freq other than 1");
  MILLRACE_ASSIGN(const auto rank, config.get<Number>("kv_lora_rank"));
  MILLRACE_ASSIGN(const auto turned, config.get<Number>("qk_rope_head_dim"));
  MILLRACE_ASSIGN(const auto plain, config.get<Number>("qk_nope_head_dim"));
  MILLRACE_ASSIGN(const auto value_dim, config.get<Number>("v_head_dim"));
  keys.put("attention.kv_lora_rank", rank);
  keys.put("attention.key_length", rank + turned);
  keys.put("attention.value_length", rank);
  keys.put("attention.key_length_mla", plain + turned);
  keys.put("attention.value_length_mla", value_dim);
  MILLRACE_TRY(keys.copy<Number>(config, "q_lora_rank", "attention.q_lora_rank"));
  // Which layers have experts: those after the first ones.
  MILLRACE_ASSIGN(const auto kinds, config.find<Kinds>("mlp_layer_types"));
  if (!kinds) return {};
  const auto first = std::ranges::find(*kinds, "sparse");
  if (std::find_if(first, kinds->end(), [](const auto& kind) { return kind != "sparse"; }) !=
      kinds->end()) {
    return refuse_setting(config, "mlp_layer_types with experts before a dense layer");
  }
  if (config.has("first_k_dense_replace")) return {};
  keys.put("leading_dense_block_count", static_cast<Number>(first - kinds->begin()));
  return {};
}

Status write_gemma4(const Settings& config, const Kinds& kinds, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto shared, config.get_or<Number>("num_kv_shared_layers", 0));
  MILLRACE_ASSIGN(const auto embedding, config.get_or<Number>("hidden_size_per_layer_input", 0));
  MILLRACE_ASSIGN(const auto global, config.get<Number>("global_head_dim"));
  MILLRACE_ASSIGN(const auto local, config.get<Number>("head_dim"));
  MILLRACE_ASSIGN(const auto width, config.get<Number>("intermediate_size"));
  MILLRACE_ASSIGN(const bool doubles, config.get_or<bool>("use_double_wide_mlp", false));
  keys.put("attention.shared_kv_layers", shared);
  keys.put("embedding_length_per_layer_input", embedding);
  keys.put("attention.key_length", global);
  keys.put("attention.value_length", global);
  keys.put("attention.key_length_swa", local);
  keys.put("attention.value_length_swa", local);
  keys.put("rope.dimension_count_swa", local);
  Numbers widths(kinds.size(), width);
  for (std::size_t i = 0; doubles && i < kinds.size(); ++i) {
    if (i + shared >= kinds.size()) widths[i] *= 2;
  }
  put_by_layer(keys, "feed_forward_length", widths);
  return {};
}

// Layers of Nemotron that are no feed-forward have none.
Status write_widths(const Settings& config, const Kinds& kinds, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto dense, config.get_or<Number>("intermediate_size", 0));
  MILLRACE_ASSIGN(const auto expert, config.get_or<Number>("moe_intermediate_size", 0));
  const bool both = std::ranges::find(kinds, "mlp") != kinds.end() &&
                    std::ranges::find(kinds, "moe") != kinds.end();
  if (both) return refuse_setting(config, "feed-forwards both with and without experts");
  if (config.has("moe_latent_size")) return refuse_setting(config, "moe_latent_size");
  Numbers widths;
  for (const std::string& kind : kinds) {
    widths.push_back(kind == "mlp" ? dense : kind == "moe" ? expert : 0);
  }
  put_numbers(keys, "feed_forward_length", widths);
  return {};
}

Status write_kv_heads(const HubFamily& family, const Settings& config, const Kinds& kinds,
                      ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto heads, config.get<Number>("num_attention_heads"));
  MILLRACE_ASSIGN(const auto kv_heads, config.get_or<Number>("num_key_value_heads", heads));
  MILLRACE_ASSIGN(const auto global, config.get_or<Number>("num_global_key_value_heads", kv_heads));
  Numbers out;
  for (const std::string& kind : kinds) {
    out.push_back(kind == "full_attention" ? global : kind == "sliding_attention" ? kv_heads : 0);
  }
  if (family.architecture == "gemma4") {
    put_by_layer(keys, "attention.head_count_kv", out);
  } else {
    put_numbers(keys, "attention.head_count_kv", out);
  }
  return {};
}

}  // namespace

Status write_layer_keys(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  MILLRACE_ASSIGN(const Kinds kinds, read_layer_kinds(family, config));
  if (family.kv_heads == KvHeads::by_layer) {
    MILLRACE_TRY(write_kv_heads(family, config, kinds, keys));
  }
  if (family.architecture == "gemma4") return write_gemma4(config, kinds, keys);
  if (family.kv_heads == KvHeads::one) return write_latent(config, keys);
  if (config.has("linear_num_value_heads")) return write_delta_net(config, kinds, keys);
  if (config.has("conv_L_cache")) {
    MILLRACE_ASSIGN(const bool biased, config.get_or<bool>("conv_bias", false));
    if (biased) return refuse_setting(config, "conv_bias = true");
    MILLRACE_ASSIGN(const bool chooses, config.get_or<bool>("use_expert_bias", true));
    if (!chooses) return refuse_setting(config, "use_expert_bias = false");
    return keys.copy<Number>(config, "conv_L_cache", "shortconv.l_cache");
  }
  if (family.architecture.starts_with("nemotron")) {
    MILLRACE_TRY(write_widths(config, kinds, keys));
  }
  const bool attends_only = family.variant.starts_with("attention");
  if (config.has("mamba_n_heads") && !attends_only) return write_mamba(config, keys);
  return {};
}

}  // namespace millrace::engine
