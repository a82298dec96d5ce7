"""The models with states as the official classes: configurations, names and what the converter does
to their parameters, for hugging_face.py.
"""
import contextlib
import importlib

import numpy as np

from models import (EXPERTS, GRANITE_LAYERS, LFM2_LAYERS, NEMOTRON_LAYERS, NEMOTRON_MOE_LAYERS,
                    USED)
from recurrent import (CONV, DELTA_STATE, GROUPS, KEY_HEADS, MAMBA_HEADS, MAMBA_STATE, SHORT_TAPS,
                       VALUE_HEADS)


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta, **more))


def layer_types(letters, **names):
    """Kinds of layers by the letters of models.py, as classes name them. `names` are others."""
    known = {"a": "full_attention", "m": "linear_attention", "c": "conv", "M": "linear_attention",
             "*": "full_attention", "-": "mlp", "E": "moe"} | names
    return [known[letter] for letter in letters]


DELTA = dict(linear_conv_kernel_dim=CONV, linear_key_head_dim=DELTA_STATE,
             linear_value_head_dim=DELTA_STATE, linear_num_key_heads=KEY_HEADS,
             linear_num_value_heads=VALUE_HEADS)
QWEN35 = DELTA | rope(1e7, partial_rotary_factor=0.25, mrope_section=[3, 3, 2])
QWEN_MOE = dict(num_experts=EXPERTS, num_experts_per_tok=USED, moe_intermediate_size=64,
                shared_expert_intermediate_size=96)
MAMBA = dict(conv_kernel=CONV, n_groups=GROUPS, expand=2, num_heads=MAMBA_HEADS,
             state_size=MAMBA_STATE)
GRANITE = dict(
    embedding_multiplier=1.5, residual_multiplier=0.6, attention_multiplier=0.2,
    logits_scaling=8.0, layer_types=layer_types(GRANITE_LAYERS), mamba_n_heads=MAMBA_HEADS,
    mamba_n_groups=GROUPS, mamba_d_state=MAMBA_STATE, mamba_d_conv=CONV, mamba_expand=2,
    mamba_d_head=32)
LFM2 = rope(1e6) | dict(conv_L_cache=SHORT_TAPS, block_auto_adjust_ff_dim=False,
                        layer_types=layer_types(LFM2_LAYERS))
NEMOTRON = dict(mamba_num_heads=MAMBA_HEADS, mamba_head_dim=16, n_groups=GROUPS,
                ssm_state_size=MAMBA_STATE, conv_kernel=CONV, expand=2,
                time_step_min=1e-30)  # no limit, as files state none
# Powers of two, so that the converter's products are exact.
FALCON = rope(1e6) | dict(
    mamba_n_heads=MAMBA_HEADS, mamba_d_head=16, mamba_n_groups=GROUPS, mamba_d_ssm=128,
    mamba_d_state=MAMBA_STATE, mamba_d_conv=CONV, mamba_expand=2, mamba_rms_norm=False,
    lm_head_multiplier=0.5, embedding_multiplier=2.0, mlp_multipliers=[0.5, 0.25],
    key_multiplier=0.5, attention_in_multiplier=0.25, attention_out_multiplier=2.0,
    ssm_in_multiplier=0.5, ssm_out_multiplier=0.25, ssm_multipliers=[0.5, 2.0, 0.25, 4.0, 0.125])

# Model -> the class's name without "Config" and "ForCausalLM", and what its configuration adds.
CLASSES = {
    "qwen35": ("Qwen3_5", QWEN35),
    "qwen35moe": ("Qwen3_5Moe", QWEN35 | QWEN_MOE),
    "lfm2": ("Lfm2", LFM2),
    "lfm2moe": ("Lfm2Moe", LFM2 | dict(
        num_experts=EXPERTS, num_experts_per_tok=USED, moe_intermediate_size=64,
        num_dense_layers=2)),
    "mamba2": ("Mamba2", MAMBA | dict(head_dim=16)),
    "granitehybrid": ("GraniteMoeHybrid", GRANITE | dict(
        num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=128)),
    "granitehybrid-moe": ("GraniteMoeHybrid", GRANITE | dict(
        num_local_experts=EXPERTS, num_experts_per_tok=USED, shared_intermediate_size=96)),
    "qwen3next": ("Qwen3Next", DELTA | QWEN_MOE | rope(1e7, partial_rotary_factor=0.25)),
    "nemotron_h": ("NemotronH", NEMOTRON | dict(
        layers_block_type=layer_types(NEMOTRON_LAYERS))),
    "nemotron_h_moe": ("NemotronH", NEMOTRON | dict(
        layers_block_type=layer_types(NEMOTRON_MOE_LAYERS), n_routed_experts=EXPERTS,
        num_experts_per_tok=USED, n_shared_experts=1, moe_intermediate_size=64,
        moe_shared_expert_intermediate_size=96, norm_topk_prob=True, routed_scaling_factor=2.5)),
    "falcon-h1": ("FalconH1", FALCON),
}
# What classes call a norm's epsilon.
EPSILONS = {"lfm2": "norm_eps", "lfm2moe": "norm_eps", "mamba2": "layer_norm_epsilon",
            "nemotron_h": "layer_norm_epsilon", "nemotron_h_moe": "layer_norm_epsilon"}

# ---- Names of a layer's tensors.

DELTA_NAMES = {
    "attn_qkv.weight": "linear_attn.in_proj_qkv.weight",
    "attn_gate.weight": "linear_attn.in_proj_z.weight",
    "ssm_beta.weight": "linear_attn.in_proj_b.weight",
    "ssm_alpha.weight": "linear_attn.in_proj_a.weight",
    "ssm_conv1d.weight": "linear_attn.conv1d.weight", "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_a": "linear_attn.A_log", "ssm_norm.weight": "linear_attn.norm.weight",
    "ssm_out.weight": "linear_attn.out_proj.weight"}
QWEN_SHARED = {f"ffn_{x}_shexp.weight": f"mlp.shared_expert.{x}_proj.weight"
               for x in ("gate", "up", "down")}
LFM2_NAMES = {
    "attn_norm.weight": "operator_norm.weight", "ffn_norm.weight": "ffn_norm.weight",
    **{f"shortconv.{x}.weight": f"conv.{x}.weight" for x in ("in_proj", "conv", "out_proj")},
    "attn_output.weight": "self_attn.out_proj.weight",
    **{f"attn_{x}_norm.weight": f"self_attn.{x}_layernorm.weight" for x in "qk"},
    **{f"ffn_{ours}.weight": f"feed_forward.{theirs}.weight"
       for ours, theirs in (("gate", "w1"), ("up", "w3"), ("down", "w2"))},
    "ffn_gate_inp.weight": "feed_forward.gate.weight",
    "exp_probs_b.bias": "feed_forward.expert_bias"}


def mamba_names(mixer):
    return {"ssm_in.weight": f"{mixer}.in_proj.weight", "ssm_a": f"{mixer}.A_log",
            "ssm_conv1d.weight": f"{mixer}.conv1d.weight", "ssm_d": f"{mixer}.D",
            "ssm_conv1d.bias": f"{mixer}.conv1d.bias", "ssm_dt.bias": f"{mixer}.dt_bias",
            "ssm_norm.weight": f"{mixer}.norm.weight", "ssm_out.weight": f"{mixer}.out_proj.weight"}


GRANITE_NAMES = mamba_names("mamba") | {
    "ffn_gate_inp.weight": "block_sparse_moe.router.weight",
    "shared_in": "shared_mlp.input_linear.weight", "shared_out": "shared_mlp.output_linear.weight"}
NEMOTRON_NAMES = mamba_names("mixer") | {
    "attn_norm.weight": "norm.weight", "ffn_gate_inp.weight": "mixer.gate.weight",
    "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
    **{f"attn_{ours}.weight": f"mixer.{theirs}_proj.weight"
       for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))},
    **{f"ffn_{x}.weight": f"mixer.{x}_proj.weight" for x in ("up", "down")},
    **{f"ffn_{x}_shexp.weight": f"mixer.shared_experts.{x}_proj.weight" for x in ("up", "down")},
    **{f"experts_{x}": f"mixer.experts.{x}_proj" for x in ("up", "down")}}
FALCON_NAMES = mamba_names("mamba") | {
    "ffn_norm": "pre_ff_layernorm.weight",
    **{f"ffn_{x}.weight": f"feed_forward.{x}_proj.weight" for x in ("gate", "up", "down")}}
NAMES = {"qwen35": DELTA_NAMES, "qwen35moe": DELTA_NAMES | QWEN_SHARED,
         "lfm2": LFM2_NAMES, "lfm2moe": LFM2_NAMES,
         "mamba2": {"attn_norm.weight": "norm.weight"} | mamba_names("mixer"),
         "granitehybrid": GRANITE_NAMES, "granitehybrid-moe": GRANITE_NAMES,
         "qwen3next": QWEN_SHARED | DELTA_NAMES | {
             "qkvz": "linear_attn.in_proj_qkvz.weight",
             "ssm_ba.weight": "linear_attn.in_proj_ba.weight"},
         "nemotron_h": NEMOTRON_NAMES, "nemotron_h_moe": NEMOTRON_NAMES,
         "falcon-h1": FALCON_NAMES}
# Outside of layers, and what layers are in.
LFM2_OUTSIDE = {"token_embd_norm.weight": "model.embedding_norm.weight"}
NEMOTRON_OUTSIDE = {"token_embd.weight": "model.embeddings.weight",
                    "output_norm.weight": "model.norm_f.weight"}
OUTSIDE = {
    "lfm2": LFM2_OUTSIDE, "lfm2moe": LFM2_OUTSIDE,
    "nemotron_h": NEMOTRON_OUTSIDE, "nemotron_h_moe": NEMOTRON_OUTSIDE,
    "falcon-h1": {"output_norm.weight": "model.final_layernorm.weight"},
    "mamba2": {"token_embd.weight": "backbone.embeddings.weight",
               "output_norm.weight": "backbone.norm_f.weight"}}
BODIES = {"mamba2": "backbone"}
EXPERT_BLOCKS = {"lfm2moe": "feed_forward", "granitehybrid-moe": "block_sparse_moe"}
# Rows of queries and keys are reordered for rotation in pairs, although nothing rotates.
REORDERED = {"granitehybrid", "granitehybrid-moe", "nemotron_h", "nemotron_h_moe"}

ADDS_ONE = {"qwen35", "qwen35moe", "qwen3next"}  # to norms, except those of states
# Models with delta nets, and the folder of their class.
DELTA_NETS = {"qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe", "qwen3next": "qwen3_next"}
TILED = {"qwen35", "qwen35moe"}  # value heads in the order of the file, see grouped()


# ---- What the converter did to a layer.

def grouped(values, axis, size):
    """Value heads in the order of the class: those of one key head stand together. In the file,
    head h goes with key head h % KEY_HEADS. `size` is the number of channels of a head."""
    values = np.moveaxis(values, axis, 0)
    heads = values.reshape(VALUE_HEADS // KEY_HEADS, KEY_HEADS, size, *values.shape[1:])
    return np.moveaxis(heads.swapaxes(0, 1).reshape(values.shape), 0, axis)


def group_value_heads(layer):
    keys = 2 * KEY_HEADS * DELTA_STATE
    for name in ("attn_qkv.weight", "ssm_conv1d.weight"):
        values = layer[name]
        layer[name] = np.concatenate([values[:keys], grouped(values[keys:], 0, DELTA_STATE)])
    layer["attn_gate.weight"] = grouped(layer["attn_gate.weight"], 0, DELTA_STATE)
    layer["ssm_out.weight"] = grouped(layer["ssm_out.weight"], 1, DELTA_STATE)
    for name in ("ssm_beta.weight", "ssm_alpha.weight", "ssm_dt.bias", "ssm_a"):
        layer[name] = grouped(layer[name], 0, 1)


def joined_by_key_head(layer):
    """One matrix of which each key head has rows of queries, keys, values and gates."""
    keys = KEY_HEADS * DELTA_STATE
    qkv, gate = layer.pop("attn_qkv.weight"), layer.pop("attn_gate.weight")
    parts = [qkv[:keys], qkv[keys:2 * keys], qkv[2 * keys:], gate]
    by_head = [part.reshape(KEY_HEADS, -1, part.shape[-1]) for part in parts]
    return np.concatenate(by_head, 1).reshape(-1, gate.shape[-1])


def falcon_factors():
    """What the converter multiplied each tensor with, by its name in the file."""
    inner, state = FALCON["mamba_d_ssm"], GROUPS * MAMBA_STATE
    rows = np.repeat(FALCON["ssm_multipliers"], [inner, inner, state, state, MAMBA_HEADS])
    into, gate_down = FALCON["attention_in_multiplier"], FALCON["mlp_multipliers"]
    return {"token_embd.weight": FALCON["embedding_multiplier"],
            "output.weight": FALCON["lm_head_multiplier"],
            "attn_q.weight": into, "attn_k.weight": into * FALCON["key_multiplier"],
            "attn_v.weight": into, "attn_output.weight": FALCON["attention_out_multiplier"],
            "ssm_in.weight": FALCON["ssm_in_multiplier"] * rows[:, None].astype(np.float32),
            "ssm_out.weight": FALCON["ssm_out_multiplier"],
            "ffn_gate.weight": gate_down[0], "ffn_down.weight": gate_down[1]}


def rounded_decay(values):
    """A decay whose logarithm was rounded to float32."""
    logarithms = np.log(-values.astype(np.float64)).astype(np.float32)
    return (-np.exp(logarithms.astype(np.float64))).astype(np.float32)


def unscaled(tensors):
    """Of Falcon-H1, without the factors."""
    factors = falcon_factors()
    return {name: values / np.float32(factors.get(name, 1)) for name, values in tensors.items()}


def undo(model, layer):
    """A layer's tensors with the values and shapes of the class's parameters, not yet renamed."""
    layer = dict(layer)
    if model.name in TILED and "ssm_a" in layer:
        group_value_heads(layer)
    if model.name == "qwen3next" and "ssm_a" in layer:
        layer["qkvz"] = joined_by_key_head(layer)
    if model.name == "nemotron_h_moe" and "ffn_up_exps.weight" in layer:
        layer |= {f"experts_{x}": layer.pop(f"ffn_{x}_exps.weight") for x in ("up", "down")}
    if model.name == "falcon-h1":
        layer = unscaled(layer)
    if model.arch == "granitehybrid":
        end = "_shexp.weight" if "ffn_up_shexp.weight" in layer else ".weight"
        gate, up, down = (layer.pop(f"ffn_{x}{end}") for x in ("gate", "up", "down"))
        layer |= {"shared_in": np.concatenate([gate, up]), "shared_out": down}
    if "ssm_a" in layer:
        # Logarithms in float64, so that the class has the file's values.
        layer["ssm_a"] = np.log(-layer["ssm_a"].astype(np.float64)).reshape(-1)
    for name in ("ssm_conv1d.weight", "shortconv.conv.weight"):
        if name in layer:
            layer[name] = layer[name][:, None]
    for name in ("ssm_d", "ssm_norm.weight"):
        if name in layer:
            layer[name] = layer[name].reshape(-1)
    return layer


# ---- What llama.cpp computes.

@contextlib.contextmanager
def key_norm(model, epsilon):
    """Lets a class with delta nets divide queries and keys by sqrt(sum of squares + `epsilon`). The
    class takes 1e-6, whatever the epsilon of the model's norms; None changes nothing."""
    if epsilon is None:
        yield
        return
    folder = DELTA_NETS[model.name]
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    kept = module.l2norm
    module.l2norm = lambda x, dim=-1, eps=None: kept(x, dim, epsilon)
    try:
        yield
    finally:
        module.l2norm = kept
