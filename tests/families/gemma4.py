"""Parts of Gemma 4's layers, and the keys that state what they differ in, as the ecosystem's
converter names and shapes them.

Two of three layers have a window. Their heads are half as large as those of the others, so that a
program that takes the wrong size shows.
"""
import numpy as np

PATTERN = [True, True, False]  # which layers have a window
HEAD_DIM = 64  # of layers with a window, which packed codecs can store
GLOBAL_KV_HEADS = 1  # of the model with experts
SHARED = 6  # of 12 layers: they attend to the keys of others, and are twice as wide inside
EMBEDDING = 32  # channels of a token's embedding for each layer
EXPERT_WIDTH = 64


def matrix(name, rows, columns):
    return (f"{name}.weight", "matrix", (rows, columns))


def windowed(layer):
    return PATTERN[layer % 3]


def global_head_dim(s):
    """The head size of layers without a window. Sizes have that of the others."""
    return 2 * s.head_dim


def turned(s):
    """Divides the frequencies of global layers: only a quarter of their channels turn."""
    half = global_head_dim(s) // 2
    return np.where(np.arange(half) < half // 4, 1, 1e30).astype(np.float32)


# ---- Keys.

def keys(s, window):
    large = global_head_dim(s)
    return {"attention.key_length": large, "attention.value_length": large,
            "attention.key_length_swa": s.head_dim, "attention.value_length_swa": s.head_dim,
            "rope.dimension_count": large, "rope.dimension_count_swa": s.head_dim,
            "rope.freq_base": 1e6, "rope.freq_base_swa": 1e4, "attention.sliding_window": window,
            "attention.sliding_window_pattern": [windowed(i) for i in range(s.layers)],
            "final_logit_softcapping": 5.0}


def small_keys(s, window):
    """Of E2B and E4B."""
    widths = [s.ffn if i < s.layers - SHARED else 2 * s.ffn for i in range(s.layers)]
    return keys(s, window) | {
        "attention.shared_kv_layers": SHARED, "embedding_length_per_layer_input": EMBEDDING,
        "feed_forward_length": widths}


def mixture_keys(s, window):
    """Of 26B-A4B."""
    heads = [s.kv_heads if windowed(i) else GLOBAL_KV_HEADS for i in range(s.layers)]
    return keys(s, window) | {
        "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0,
        "attention.head_count_kv": heads}


# ---- Tensors: of the model, then parts of a layer, functions of the sizes that list tensors as
# (name, kind, shape).

def embeddings(s):
    return [matrix("per_layer_token_embd", s.vocabulary, s.layers * EMBEDDING),
            matrix("per_layer_model_proj", s.layers * EMBEDDING, s.width),
            ("per_layer_proj_norm.weight", "norm", (EMBEDDING,))]


def attention(layer, has_keys=True, has_values=True, kv_heads=None):
    def tensors(s):
        dim = s.head_dim if windowed(layer) else global_head_dim(s)
        rows, pairs = s.heads * dim, (kv_heads or s.kv_heads) * dim
        out = [matrix("attn_q", rows, s.width), matrix("attn_output", s.width, rows),
               ("attn_q_norm.weight", "small norm", (dim,))]
        if has_keys:
            out += [matrix("attn_k", pairs, s.width), ("attn_k_norm.weight", "small norm", (dim,))]
        if has_keys and has_values:
            out.append(matrix("attn_v", pairs, s.width))
        return out
    return tensors


def dense(times=1):
    return lambda s: [matrix("ffn_gate", s.ffn * times, s.width),
                      matrix("ffn_up", s.ffn * times, s.width),
                      matrix("ffn_down", s.width, s.ffn * times)]


def embedding(s):
    """What a layer makes of its embedding, and what its output is multiplied by."""
    return [matrix("inp_gate", EMBEDDING, s.width), matrix("proj", s.width, EMBEDDING),
            ("post_norm.weight", "norm", (s.width,))]


def output_scale(s):
    return [("layer_output_scale.weight", "norm", (1,))]


def mixture(s):
    norms = [(f"{name}.weight", "norm", (s.width,))
             for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")]
    return norms + [
        matrix("ffn_gate_inp", s.choices, s.width),
        ("ffn_gate_inp.scale", "router scale", (s.width,)),
        ("ffn_gate_up_exps.weight", "matrix", (s.choices, 2 * EXPERT_WIDTH, s.width)),
        ("ffn_down_exps.weight", "matrix", (s.choices, s.width, EXPERT_WIDTH)),
        ("ffn_down_exps.scale", "norm", (s.choices,))]


def small_layer(norms, s):
    def parts(layer):
        own = layer < s.layers - SHARED
        return (norms, attention(layer, own), dense(1 if own else 2), embedding, output_scale)
    return parts


def mixture_layer(norms, s):
    def parts(layer):
        values = windowed(layer)
        heads = s.kv_heads if values else GLOBAL_KV_HEADS
        return (norms, attention(layer, True, values, heads), dense(), mixture, output_scale)
    return parts
