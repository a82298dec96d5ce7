#pragma once
// What config.json of a class may leave out (under uniform names), what it calls settings that
// other classes call otherwise, and the kinds of its layers, for hub_families.cpp. Thread safety:
// constants.
#include <string_view>

#include "engine/core/hub/hub_family.hpp"

namespace millrace::engine::hub_defaults {

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

constexpr std::string_view mistral4_defaults =
    R"({"scoring_func": "softmax", "rms_norm_eps": 1e-6})";

// Kinds of layers, settings and defaults of classes whose layers differ.
constexpr std::string_view gemma4_kinds = "sliding_attention full_attention";
constexpr SettingName gemma4_settings[] = {{"top_k_experts", "num_experts_per_tok"}};
constexpr std::string_view gemma4_defaults =
    R"({"head_dim": 256, "global_head_dim": 512, "num_attention_heads": 8,
        "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "sliding_window": 512,
        "hidden_size_per_layer_input": 256, "tie_word_embeddings": true,
        "max_position_embeddings": 131072, "rope_parameters": {
          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
          "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                             "partial_rotary_factor": 0.25}}})";

constexpr std::string_view gemma4_unified_defaults =
    R"({"head_dim": 256, "global_head_dim": 512, "num_attention_heads": 8,
        "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "sliding_window": 1024,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": true,
        "max_position_embeddings": 262144, "rope_parameters": {
          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
          "full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                             "partial_rotary_factor": 0.25}}})";

constexpr std::string_view delta_kinds = "linear_attention full_attention";
constexpr std::string_view delta_defaults =
    R"({"head_dim": 256, "partial_rotary_factor": 0.25, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32})";

constexpr std::string_view lfm2_kinds = "conv full_attention";
constexpr SettingName lfm2_settings[] = {
    {"norm_eps", "rms_norm_eps"},
    {"block_ff_dim", "intermediate_size"},
    {"tie_embedding", "tie_word_embeddings"},
    {"num_dense_layers", "first_k_dense_replace"},
};
constexpr std::string_view lfm2_defaults =
    R"({"rope_theta": 1e6, "conv_L_cache": 3, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
        "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0,
        "block_multiple_of": 256})";
constexpr std::string_view lfm2moe_defaults =
    R"({"rope_theta": 1e6, "conv_L_cache": 3, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
        "first_k_dense_replace": 2, "scoring_func": "sigmoid"})";

constexpr SettingName mamba2_settings[] = {
    {"layer_norm_epsilon", "rms_norm_eps"},
    {"num_heads", "mamba_n_heads"},
    {"head_dim", "mamba_d_head"},
    {"state_size", "mamba_d_state"},
    {"n_groups", "mamba_n_groups"},
    {"conv_kernel", "mamba_d_conv"},
    {"expand", "mamba_expand"},
};
constexpr std::string_view mamba2_defaults =
    R"({"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 8,
        "mamba_d_conv": 4, "mamba_expand": 2, "rms_norm_eps": 1e-5})";
constexpr std::string_view falcon_defaults =
    R"({"mamba_d_ssm": 1024, "mamba_n_heads": 128, "mamba_n_groups": 1, "mamba_d_state": 256,
        "mamba_d_conv": 4, "mamba_norm_before_gate": true})";

constexpr std::string_view nemotron_kinds = "linear_attention full_attention mlp moe";
constexpr SettingName nemotron_settings[] = {
    {"attention_head_dim", "head_dim"},
    {"mamba_num_heads", "mamba_n_heads"},
    {"mamba_head_dim", "mamba_d_head"},
    {"ssm_state_size", "mamba_d_state"},
    {"n_groups", "mamba_n_groups"},
    {"conv_kernel", "mamba_d_conv"},
    {"mlp_hidden_act", "hidden_act"},
    {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"hybrid_override_pattern", "layer_types"},
    {"layers_block_type", "layer_types"},
};
constexpr std::string_view nemotron_defaults =
    R"({"head_dim": 128, "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128,
        "mamba_n_groups": 8, "mamba_d_conv": 4, "layer_norm_epsilon": 1e-5,
        "scoring_func": "sigmoid"})";

constexpr std::string_view granite_kinds = "linear_attention full_attention";
constexpr SettingName granite_settings[] = {
    {"shared_intermediate_size", "shared_expert_intermediate_size"},
    {"layers_block_type", "layer_types"},
};
constexpr std::string_view granite_defaults =
    R"({"mamba_n_heads": 128, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
        "mamba_expand": 2, "shared_expert_intermediate_size": 1024, "num_local_experts": 8})";

}  // namespace millrace::engine::hub_defaults
