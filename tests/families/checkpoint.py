"""The tensors of the tiny models as a hub's checkpoints hold them. This undoes what the converter
does: names, the order of rows of queries and keys that rotate in pairs, 1 added to norms, fused and
interleaved matrices, stacked experts.
"""
import dataclasses

import numpy as np

import hugging_face_gemma4 as gemma4
import hugging_face_recurrent as recurrent
from models import EXPERTS

# A layer's tensors, then what single models call otherwise.

SHARED = {f"ffn_{x}_shexp.weight": f"mlp.shared_experts.{x}_proj.weight"
          for x in ("gate", "up", "down")}
NAMES = SHARED | {
    "attn_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_qkv.weight": "self_attn.qkv_proj.weight",
    "attn_sinks.weight": "self_attn.sinks",
    "ffn_gate_inp.weight": "mlp.gate.weight",
    "ffn_gate_inp_shexp.weight": "mlp.shared_expert_gate.weight",
    "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
    "attn_q_a.weight": "self_attn.q_a_proj.weight",
    "attn_q_a_norm.weight": "self_attn.q_a_layernorm.weight",
    "attn_q_b.weight": "self_attn.q_b_proj.weight",
    "attn_kv_a_mqa.weight": "self_attn.kv_a_proj_with_mqa.weight",
    "attn_kv_a_norm.weight": "self_attn.kv_a_layernorm.weight",
    **{f"attn_{ours}.{what}": f"self_attn.{theirs}_proj.{what}" for what in ("weight", "bias")
       for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("output", "o"))},
    **{f"ffn_{x}.weight": f"mlp.{x}_proj.weight" for x in ("gate", "up", "down")}}
GEMMA = {"ffn_norm.weight": "pre_feedforward_layernorm.weight"}
FUSED = {"ffn_up.weight": "mlp.gate_up_proj.weight"}
OTHER_NAMES = {
    "gemma2": GEMMA, "gemma3": GEMMA, "phi3": FUSED, "phi3-long": FUSED,
    "glm4": FUSED | {"post_attention_norm.weight": "post_self_attn_layernorm.weight",
                     "post_ffw_norm.weight": "post_mlp_layernorm.weight"},
    "qwen2moe": {ours: theirs.replace("experts", "expert") for ours, theirs in SHARED.items()},
    "gpt-oss": {f"ffn_gate_inp.{x}": f"mlp.router.{x}" for x in ("weight", "bias")},
    "granitemoe": {"ffn_gate_inp.weight": "block_sparse_moe.router.weight"},
    "minimax-m2": {"exp_probs_b.bias": "mlp.e_score_correction_bias"},
    "ernie4_5-moe": {"exp_probs_b.bias": "mlp.gate.moe_statics.e_score_correction_bias"},
    "hunyuan-dense": {"attn_q_norm.weight": "self_attn.query_layernorm.weight",
                      "attn_k_norm.weight": "self_attn.key_layernorm.weight"}}
OTHER_NAMES |= recurrent.NAMES | gemma4.NAMES
OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight",
           "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}

# The converter reorders rows of queries and keys for rotation in pairs.
REORDERED = recurrent.REORDERED | {
    "llama", "mistral", "mixtral", "mistral3", "granite", "granitemoe", "smollm3"}
ADDS_ONE = {"gemma2", "gemma3"} | recurrent.ADDS_ONE  # to the weights of norms


EXPERT_BLOCKS = {"granitemoe": "block_sparse_moe"} | recurrent.EXPERT_BLOCKS


def halves_from_pairs(rows, heads):
    """The rows of a query or key matrix whose heads rotate by halves instead of pairs."""
    by_head = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return by_head.swapaxes(1, 2).reshape(rows.shape)


def experts(model, layer):
    """The parameters of a layer's experts from its tensors: gate and up are one matrix."""
    if model.name in gemma4.NAMES:
        return {}  # one matrix, as the class has it
    if "ffn_gate_up_exps.weight" in layer:
        return {"mlp.experts.gate_up_proj": layer["ffn_gate_up_exps.weight"],
                "mlp.experts.down_proj": layer["ffn_down_exps.weight"]}
    gate, up, down = (layer[f"ffn_{x}_exps.weight"] for x in ("gate", "up", "down"))
    if model.name != "gpt-oss":
        block = EXPERT_BLOCKS.get(model.name, "mlp")
        return {f"{block}.experts.gate_up_proj": np.concatenate([gate, up], 1),
                f"{block}.experts.down_proj": down}
    biases = [layer[f"ffn_{x}_exps.bias"] for x in ("gate", "up")]
    interleaved = np.stack([gate, up], 2).reshape(EXPERTS, -1, gate.shape[-1])
    return {"mlp.experts.gate_up_proj": interleaved.swapaxes(1, 2),
            "mlp.experts.gate_up_proj_bias": np.stack(biases, 2).reshape(EXPERTS, -1),
            "mlp.experts.down_proj": down.swapaxes(1, 2),
            "mlp.experts.down_proj_bias": layer["ffn_down_exps.bias"]}


def latent_heads(layer):
    """The one matrix of the class from those of keys, transposed, and of values."""
    keys, values = layer.pop("attn_k_b.weight"), layer.pop("attn_v_b.weight")
    both = np.concatenate([keys.swapaxes(1, 2), values], 1)
    return {"self_attn.kv_b_proj.weight": both.reshape(-1, both.shape[-1])}


def parameters(model):
    """Name -> float32 array of every parameter of the official class."""
    names = NAMES | OTHER_NAMES.get(model.name, {})
    outside = OUTSIDE | recurrent.OUTSIDE.get(model.name, {}) | gemma4.OUTSIDE.get(model.name, {})
    body = recurrent.BODIES.get(model.name, "model")
    heads = {"attn_q": model.sizes.heads, "attn_k": model.sizes.kv_heads}
    out, layers = {}, {}
    tensors = model.tensors()
    if model.name == "falcon-h1":
        tensors = recurrent.unscaled(tensors)
    for name, values in tensors.items():
        if name.startswith("rope_"):
            continue  # the class computes it
        if model.name in ADDS_ONE and name.endswith("norm.weight") and "ssm_norm" not in name:
            values = values - 1
        if name in outside:
            out[outside[name]] = values
            continue
        _, number, short = name.split(".", 2)
        if model.name in REORDERED and short.split(".")[0] in heads:
            values = halves_from_pairs(values, heads[short.split(".")[0]])
        layers.setdefault(int(number), {})[short] = values
    for number, layer in layers.items():
        layer = recurrent.undo(model, layer)
        made = experts(model, layer) if "ffn_down_exps.weight" in layer else {}
        if "attn_k_b.weight" in layer:
            made |= latent_heads(layer)
        made |= {names[short]: values for short, values in layer.items()
                 if "_exps." not in short or short in names}
        out |= {f"{body}.layers.{number}.{name}": values for name, values in made.items()}
    if model.tied:
        out["lm_head.weight"] = out[outside["token_embd.weight"]]
    return out


# Models whose checkpoints have experts as one tensor, under the names of the class.
STACKED = {"gpt-oss", "mistral4"} | gemma4.CLASSES.keys()
# Those that have them so under other names.
RENAMED = {"granitemoe", "granitehybrid-moe"}


def saved(model):
    """Name -> float32 array of every tensor of a saved checkpoint. Most classes stack experts in
    memory only."""
    out = {}
    for name, values in parameters(model).items():
        layer, _, short = name.rpartition(".experts.")
        if name == "lm_head.weight" and model.tied:
            continue
        if model.name in RENAMED:
            name = name.replace("experts.gate_up_proj", "input_linear.weight").replace(
                "experts.down_proj", "output_linear.weight").replace("router", "router.layer")
        elif model.name == "minimax-m2":
            name = name.replace(".mlp.gate.", ".block_sparse_moe.gate.").replace(
                ".mlp.e_score", ".block_sparse_moe.e_score")
        elif model.name == "mixtral":
            name = name.replace(".mlp.gate.", ".block_sparse_moe.gate.")
        elif model.name == "ernie4_5-moe":
            name = name.replace("mlp.gate.moe_statics", "mlp.moe_statics")
        elif model.arch.startswith("nemotron"):
            name, layer = (x.replace("model.", "backbone.", 1) for x in (name, layer))
        if not layer or model.name in STACKED | RENAMED:
            out[name] = values
            continue
        out |= single_experts(model, layer, short, values)
    return out


def single_experts(model, layer, short, values):
    """The tensors of each expert, from those of all."""
    names = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
    if model.name in ("mixtral", "minimax-m2", "lfm2moe"):
        names = {"gate": "w1", "up": "w3", "down": "w2"}
    if model.name in ("mixtral", "minimax-m2"):
        layer = layer.replace(".mlp", ".block_sparse_moe")
    pieces = {short.partition("_")[0]: values}
    if short == "gate_up_proj":
        pieces = dict(zip(("gate", "up"), np.split(values, 2, axis=1)))
    return {f"{layer}.experts.{i}.{names[piece]}.weight": matrices[i]
            for piece, matrices in pieces.items() for i in range(EXPERTS)}


@dataclasses.dataclass(frozen=True)
class Rounded:
    """A model as its checkpoint has it: decays are logarithms there, rounded to float32."""
    base: object

    def __getattr__(self, name):
        return getattr(self.base, name)

    def tensors(self):
        return {name: recurrent.rounded_decay(values) if name.endswith("ssm_a") else values
                for name, values in self.base.tensors().items()}
