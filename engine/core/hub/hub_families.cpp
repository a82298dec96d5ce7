// The table of families. Names of tensors and defaults are those of the classes in the library
// `transformers`; names and orders on our side are those that llama.cpp's converter writes.
#include <algorithm>
#include <array>

#include "engine/core/hub/hub_family.hpp"

namespace millrace::engine {
namespace {

using enum Form;

// The norm before the feed-forward has the name of another one in these architectures.
constexpr NameRule renamed_norm[] = {
    {"post_attention_layernorm", "post_attention_norm", norm},
};
constexpr NameRule gpt_oss[] = {
    {"post_attention_layernorm", "post_attention_norm", norm},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", interleaved, "ffn_up_exps.weight"},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", interleaved, "ffn_up_exps.bias"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", columns},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"},
};
constexpr NameRule glm4[] = {
    {"post_self_attn_layernorm", "post_attention_norm", norm},
    {"post_mlp_layernorm", "post_ffw_norm", norm},
};
constexpr NameRule hunyuan[] = {
    {"self_attn.query_layernorm", "attn_q_norm", norm},
    {"self_attn.key_layernorm", "attn_k_norm", norm},
};
constexpr NameRule granitemoe[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", halves, "ffn_up_exps"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
};

constexpr NameRule common[] = {
    {"input_layernorm", "attn_norm", norm},
    {"post_attention_layernorm", "ffn_norm", norm},
    {"pre_feedforward_layernorm", "ffn_norm", norm},
    {"post_feedforward_layernorm", "post_ffw_norm", norm},
    {"self_attn.q_proj", "attn_q", queries},
    {"self_attn.k_proj", "attn_k", keys},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm", norm},
    {"self_attn.k_norm", "attn_k_norm", norm},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps", expert},
    {"mlp.experts.*.up_proj", "ffn_up_exps", expert},
    {"mlp.experts.*.down_proj", "ffn_down_exps", expert},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight", halves, "ffn_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps", expert},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps", expert},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps", expert},
};

constexpr std::string_view head_128 = R"({"head_dim": 128})";
constexpr std::string_view gelu = "gelu_pytorch_tanh";
constexpr std::string_view gemma3_defaults =
    R"({"head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "rope_theta": 1e6,
        "rope_local_base_freq": 1e4, "rms_norm_eps": 1e-6, "max_position_embeddings": 131072,
        "sliding_window": 4096, "vocab_size": 262208})";
constexpr std::string_view gemma2_defaults =
    R"({"head_dim": 256, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "sliding_window": 4096, "rms_norm_eps": 1e-6})";
constexpr std::string_view mistral_defaults = R"({"rms_norm_eps": 1e-6})";
constexpr std::string_view half_rope = R"({"head_dim": 128, "partial_rotary_factor": 0.5})";
constexpr std::string_view half_rope_moe = R"({"partial_rotary_factor": 0.5})";
constexpr std::string_view ernie = R"({"head_dim": 128, "rope_theta": 5e5})";
constexpr std::string_view ernie_moe = R"({"rope_theta": 5e5})";

constexpr auto families = std::to_array<HubFamily>({
    {.class_name = "LlamaForCausalLM", .architecture = "llama", .reorders = true},
    {.class_name = "MistralForCausalLM",
     .architecture = "llama",
     .reorders = true,
     .defaults = mistral_defaults},
    {.class_name = "MixtralForCausalLM",
     .architecture = "llama",
     .reorders = true,
     .defaults = R"({"rope_theta": 1e6})"},
    {.class_name = "Ministral3ForCausalLM",
     .architecture = "mistral3",
     .reorders = true,
     .defaults = head_128},
    {.class_name = "Mistral3ForConditionalGeneration",
     .architecture = "mistral3",
     .reorders = true,
     .defaults = head_128},
    {.class_name = "Qwen2ForCausalLM", .architecture = "qwen2"},
    {.class_name = "Qwen2MoeForCausalLM", .architecture = "qwen2moe"},
    {.class_name = "Qwen3ForCausalLM", .architecture = "qwen3", .defaults = head_128},
    {.class_name = "Qwen3MoeForCausalLM", .architecture = "qwen3moe"},
    {.class_name = "Gemma2ForCausalLM",
     .architecture = "gemma2",
     .names = renamed_norm,
     .adds_one = true,
     .defaults = gemma2_defaults,
     .activation = gelu},
    {.class_name = "Gemma3ForCausalLM",
     .architecture = "gemma3",
     .names = renamed_norm,
     .adds_one = true,
     .defaults = gemma3_defaults,
     .activation = gelu},
    {.class_name = "Gemma3ForConditionalGeneration",
     .architecture = "gemma3",
     .names = renamed_norm,
     .adds_one = true,
     .defaults = gemma3_defaults,
     .activation = gelu},
    {.class_name = "GptOssForCausalLM",
     .architecture = "gpt-oss",
     .names = gpt_oss,
     .defaults = R"({"head_dim": 64, "rms_norm_eps": 1e-5})"},
    {.class_name = "GraniteForCausalLM", .architecture = "granite", .reorders = true},
    {.class_name = "GraniteMoeForCausalLM",
     .architecture = "granitemoe",
     .names = granitemoe,
     .reorders = true},
    {.class_name = "Glm4ForCausalLM", .architecture = "glm4", .names = glm4, .defaults = half_rope},
    {.class_name = "Glm4MoeForCausalLM",
     .architecture = "glm4moe",
     .names = renamed_norm,
     .defaults = half_rope_moe},
    {.class_name = "MiniMaxM2ForCausalLM", .architecture = "minimax-m2", .defaults = head_128},
    {.class_name = "Phi3ForCausalLM", .architecture = "phi3"},
    {.class_name = "Olmo2ForCausalLM", .architecture = "olmo2", .names = renamed_norm},
    {.class_name = "Olmo3ForCausalLM", .architecture = "olmo2", .names = renamed_norm},
    {.class_name = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .reorders = true,
     .defaults = R"({"rope_theta": 2e6})"},
    {.class_name = "SeedOssForCausalLM",
     .architecture = "seed_oss",
     .names = renamed_norm,
     .defaults = head_128},
    {.class_name = "Ernie4_5_ForCausalLM", .architecture = "ernie4_5", .defaults = ernie},
    {.class_name = "Ernie4_5ForCausalLM", .architecture = "ernie4_5", .defaults = ernie},
    {.class_name = "Ernie4_5_MoeForCausalLM",
     .architecture = "ernie4_5-moe",
     .defaults = ernie_moe},
    {.class_name = "HunYuanDenseV1ForCausalLM", .architecture = "hunyuan-dense", .names = hunyuan},
    {.class_name = "Cohere2ForCausalLM", .architecture = "cohere2"},
});

}  // namespace

const HubFamily* find_hub_family(std::string_view class_name) {
  const auto* const found = std::ranges::find(families, class_name, &HubFamily::class_name);
  return found == families.end() ? nullptr : found;
}

std::string supported_hub_classes() {
  std::string names;
  for (const HubFamily& family : families) {
    names += (names.empty() ? "" : ", ") + std::string(family.class_name);
  }
  return names;
}

std::span<const NameRule> common_names() {
  return common;
}

}  // namespace millrace::engine
