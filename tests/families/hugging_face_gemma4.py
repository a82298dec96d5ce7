"""The models of Gemma 4 as the official classes: configurations and names, for hugging_face.py."""
from gemma4 import EXPERT_WIDTH, GLOBAL_KV_HEADS, TINY, global_head_dim
from models import EXPERTS, MODELS, USED, VOCABULARY, WINDOW


def head_sizes(s):
    return dict(head_dim=s.head_dim, global_head_dim=global_head_dim(s))


def configuration(name):
    kinds, s = {True: "sliding_attention", False: "full_attention"}, MODELS[name].sizes
    return dict(
        **head_sizes(s), sliding_window=WINDOW,
        layer_types=[kinds[TINY.windowed(i)] for i in range(s.layers)],
        final_logit_softcapping=TINY.final_softcap, vocab_size_per_layer_input=VOCABULARY,
        rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=1e4),
            full_attention=dict(rope_type="proportional", rope_theta=1e6,
                                partial_rotary_factor=0.25)))


CLASSES = {
    "gemma4": ("Gemma4", configuration("gemma4") | dict(
        num_kv_shared_layers=TINY.shared, use_double_wide_mlp=True,
        hidden_size_per_layer_input=TINY.embedding)),
    "gemma4-moe": ("Gemma4", configuration("gemma4-moe") | dict(
        num_global_key_value_heads=GLOBAL_KV_HEADS, attention_k_eq_v=True, enable_moe_block=True,
        hidden_size_per_layer_input=0, num_experts=EXPERTS, top_k_experts=USED,
        moe_intermediate_size=EXPERT_WIDTH)),
}

LAYER = {
    "ffn_norm.weight": "pre_feedforward_layernorm.weight",
    "pre_ffw_norm_2.weight": "pre_feedforward_layernorm_2.weight",
    "post_ffw_norm_1.weight": "post_feedforward_layernorm_1.weight",
    "post_ffw_norm_2.weight": "post_feedforward_layernorm_2.weight",
    "ffn_gate_inp.weight": "router.proj.weight", "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "ffn_down_exps.weight": "experts.down_proj",
    "inp_gate.weight": "per_layer_input_gate.weight",
    "proj.weight": "per_layer_projection.weight",
    "post_norm.weight": "post_per_layer_input_norm.weight",
    "layer_output_scale.weight": "layer_scalar"}
NAMES = {name: LAYER for name in CLASSES}
OUTSIDE = {name: {
    "per_layer_token_embd.weight": "model.embed_tokens_per_layer.weight",
    "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
    "per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight"} for name in CLASSES}
