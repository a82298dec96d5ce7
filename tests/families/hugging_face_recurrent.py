"""The models with states as the official classes: configurations, names and what the converter does
to their parameters, for hugging_face.py.
"""
import contextlib
import importlib

import numpy as np

from recurrent import (CONV, DELTA_STATE, GROUPS, KEY_HEADS, MAMBA_HEADS, MAMBA_STATE, SHORT_TAPS,
                       VALUE_HEADS)

EXPERTS, USED = 8, 2


def rope(theta, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta, **more))


DELTA = dict(linear_conv_kernel_dim=CONV, linear_key_head_dim=DELTA_STATE,
             linear_value_head_dim=DELTA_STATE, linear_num_key_heads=KEY_HEADS,
             linear_num_value_heads=VALUE_HEADS)
QWEN35 = DELTA | rope(1e7, partial_rotary_factor=0.25, mrope_section=[3, 3, 2])
QWEN_MOE = dict(num_experts=EXPERTS, num_experts_per_tok=USED, moe_intermediate_size=64,
                shared_expert_intermediate_size=96)

# Model -> the class's name without "Config" and "ForCausalLM", and what its configuration adds.
CLASSES = {
    "qwen35": ("Qwen3_5", QWEN35),
    "qwen35moe": ("Qwen3_5Moe", QWEN35 | QWEN_MOE),
}

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
NAMES = {"qwen35": DELTA_NAMES, "qwen35moe": DELTA_NAMES | QWEN_SHARED}

ADDS_ONE = {"qwen35", "qwen35moe"}  # to norms, except those of states
# Models with delta nets, and the folder of their class.
DELTA_NETS = {"qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe"}
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


def undo(model, layer):
    """A layer's tensors with the values and shapes of the class's parameters, not yet renamed."""
    layer = dict(layer)
    if model.name in TILED and "ssm_a" in layer:
        group_value_heads(layer)
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
