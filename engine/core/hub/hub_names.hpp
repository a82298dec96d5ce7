#pragma once
// What the tensors of classes are called, for hub_families.cpp: a list for each class, or for
// several that have the same names. Thread safety: constants.
#include "engine/core/hub/hub_family.hpp"

namespace millrace::engine::hub_names {

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

// ---- Latent attention.

constexpr NameRule latent[] = {
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_k_b", latent_heads, "attn_v_b"},
};
// Mistral 4 has one matrix of gates and ups, in its files and in ours.
constexpr NameRule mistral4[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
};

// ---- Gemma 4.

constexpr NameRule gemma4[] = {
    {"post_attention_layernorm", "post_attention_norm", norm},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", norm},
    {"post_feedforward_layernorm_1", "post_ffw_norm_1", norm},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", norm},
    {"router.proj", "ffn_gate_inp"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"per_layer_input_gate", "inp_gate"},
    {"per_layer_projection", "proj"},
    {"post_per_layer_input_norm", "post_norm", norm},
    {"layer_scalar", "layer_output_scale.weight"},
};
constexpr NameRule gemma4_outside[] = {
    {"embed_tokens_per_layer", "per_layer_token_embd"},
    {"per_layer_model_projection", "per_layer_model_proj"},
    {"per_layer_projection_norm", "per_layer_proj_norm", norm},
};

// ---- Delta nets. Their own norm gets no 1.

constexpr NameRule qwen35[] = {
    {"post_attention_layernorm", "post_attention_norm", norm},
    {"linear_attn.in_proj_qkv", "attn_qkv", value_heads},
    {"linear_attn.in_proj_z", "attn_gate", value_heads},
    {"linear_attn.in_proj_b", "ssm_beta", value_heads},
    {"linear_attn.in_proj_a", "ssm_alpha", value_heads},
    {"linear_attn.conv1d", "ssm_conv1d", taps},
    {"linear_attn.dt_bias", "ssm_dt.bias", value_heads},
    {"linear_attn.A_log", "ssm_a", decay},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out", value_columns},
};
constexpr NameRule qwen3next[] = {
    {"post_attention_layernorm", "post_attention_norm", norm},
    {"linear_attn.in_proj_qkvz", "attn_qkv", joined_heads, "attn_gate"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.conv1d", "ssm_conv1d", taps},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.A_log", "ssm_a", decay},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
};

// ---- Short convolutions.

constexpr NameRule lfm2[] = {
    {"operator_norm", "attn_norm", norm},
    {"ffn_norm", "ffn_norm", norm},
    {"conv.in_proj", "shortconv.in_proj"},
    {"conv.conv", "shortconv.conv", taps},
    {"conv.out_proj", "shortconv.out_proj"},
    {"self_attn.out_proj", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm", norm},
    {"self_attn.k_layernorm", "attn_k_norm", norm},
    {"feed_forward.w1", "ffn_gate"},
    {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"},
    {"feed_forward.gate", "ffn_gate_inp"},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
    {"feed_forward.experts.*.w1", "ffn_gate_exps", expert},
    {"feed_forward.experts.*.w3", "ffn_up_exps", expert},
    {"feed_forward.experts.*.w2", "ffn_down_exps", expert},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", halves, "ffn_up_exps.weight"},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight"},
};
constexpr NameRule lfm2_outside[] = {{"embedding_norm", "token_embd_norm", norm}};

// ---- Mamba 2.

// The mixer itself, by what its layers call it.
constexpr NameRule mixer_parts[] = {
    {"mixer.in_proj", "ssm_in"},      {"mixer.conv1d", "ssm_conv1d", taps},
    {"mixer.dt_bias", "ssm_dt.bias"}, {"mixer.A_log", "ssm_a", decay_column},
    {"mixer.D", "ssm_d", column},     {"mixer.norm", "ssm_norm", groups},
    {"mixer.out_proj", "ssm_out"},
};
constexpr NameRule mamba_parts[] = {
    {"mamba.in_proj", "ssm_in"},      {"mamba.conv1d", "ssm_conv1d", taps},
    {"mamba.dt_bias", "ssm_dt.bias"}, {"mamba.A_log", "ssm_a", decay_column},
    {"mamba.D", "ssm_d", column},     {"mamba.norm", "ssm_norm", groups},
    {"mamba.out_proj", "ssm_out"},
};
constexpr NameRule mamba2[] = {{"norm", "attn_norm", norm}};
constexpr NameRule mamba2_outside[] = {
    {"embeddings", "token_embd"},
    {"norm_f", "output_norm", norm},
};
constexpr NameRule nemotron[] = {
    {"norm", "attn_norm", norm},
    {"mixer.q_proj", "attn_q", queries},
    {"mixer.k_proj", "attn_k", keys},
    {"mixer.v_proj", "attn_v"},
    {"mixer.o_proj", "attn_output"},
    {"mixer.up_proj", "ffn_up"},
    {"mixer.down_proj", "ffn_down"},
    {"mixer.gate", "ffn_gate_inp"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.*.up_proj", "ffn_up_exps", expert},
    {"mixer.experts.*.down_proj", "ffn_down_exps", expert},
    {"mixer.experts.up_proj", "ffn_up_exps.weight"},
    {"mixer.experts.down_proj", "ffn_down_exps.weight"},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
    {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
};
constexpr NameRule falcon[] = {
    {"pre_ff_layernorm.weight", "ffn_norm", norm},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.down_proj", "ffn_down"},
};
constexpr NameRule falcon_outside[] = {{"final_layernorm", "output_norm", norm}};

// The feed-forward beside the experts is all that models without experts have.
constexpr NameRule granite_hybrid[] = {
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps", halves, "ffn_up_exps"},
    {"block_sparse_moe.output_linear", "ffn_down_exps"},
    {"shared_mlp.input_linear", "ffn_gate_shexp", halves, "ffn_up_shexp"},
    {"shared_mlp.output_linear", "ffn_down_shexp"},
};
constexpr NameRule granite_hybrid_dense[] = {
    {"shared_mlp.input_linear", "ffn_gate", halves, "ffn_up"},
    {"shared_mlp.output_linear", "ffn_down"},
};

// ---- What all classes have.

constexpr NameRule common_outside[] = {
    {"lm_head", "output"},
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm", norm},
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

}  // namespace millrace::engine::hub_names
