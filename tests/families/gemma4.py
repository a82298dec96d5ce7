"""Parts of Gemma 4's layers, and the keys that state what they differ in, as the ecosystem's
converter names and shapes them.
"""
import dataclasses

import numpy as np

HEAD_DIM = 64  # of the tiny models' layers with a window; packed codecs can store it
GLOBAL_KV_HEADS = 1  # of the model with experts
EXPERT_WIDTH = 64


def matrix(name, rows, columns):
    return (f"{name}.weight", "matrix", (rows, columns))


def global_head_dim(s):
    """The head size of layers without a window. Sizes have that of the others, which is half as
    large, so that a program that takes the wrong one shows."""
    return 2 * s.head_dim


def turned(s):
    """Divides the frequencies of global layers: only a quarter of their channels turn."""
    half = global_head_dim(s) // 2
    return np.where(np.arange(half) < half // 4, 1, 1e30).astype(np.float32)


@dataclasses.dataclass(frozen=True)
class Gemma4:
    """The sizes that only Gemma 4 has, the keys that state them, and the parts of layers that
    depend on them: functions of the model's sizes that list tensors as (name, kind, shape)."""
    period: int = 3      # the last of so many layers has no window
    shared: int = 6      # last layers, which attend to the keys of others and are twice as wide
    embedding: int = 32  # channels of a token's embedding for each layer
    final_softcap: float = 5.0

    def windowed(self, layer):
        return layer % self.period != self.period - 1

    # ---- Keys.

    def keys(self, s, window):
        large = global_head_dim(s)
        return {
            "attention.key_length": large, "attention.value_length": large,
            "attention.key_length_swa": s.head_dim, "attention.value_length_swa": s.head_dim,
            "rope.dimension_count": large, "rope.dimension_count_swa": s.head_dim,
            "rope.freq_base": 1e6, "rope.freq_base_swa": 1e4, "attention.sliding_window": window,
            "attention.sliding_window_pattern": [self.windowed(i) for i in range(s.layers)],
            "final_logit_softcapping": self.final_softcap}

    def small_keys(self, s, window):
        """Of E2B and E4B."""
        widths = [s.ffn if i < s.layers - self.shared else 2 * s.ffn for i in range(s.layers)]
        return self.keys(s, window) | {
            "attention.shared_kv_layers": self.shared,
            "embedding_length_per_layer_input": self.embedding, "feed_forward_length": widths}

    def mixture_keys(self, s, window):
        """Of 26B-A4B."""
        heads = [s.kv_heads if self.windowed(i) else GLOBAL_KV_HEADS for i in range(s.layers)]
        return self.keys(s, window) | {
            "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0,
            "attention.head_count_kv": heads}

    # ---- Parts: of the model, then of a layer.

    def embeddings(self, s):
        return [matrix("per_layer_token_embd", s.vocabulary, s.layers * self.embedding),
                matrix("per_layer_model_proj", s.layers * self.embedding, s.width),
                ("per_layer_proj_norm.weight", "norm", (self.embedding,))]

    def attention(self, layer, has_keys=True, has_values=True, kv_heads=None):
        def tensors(s):
            dim = s.head_dim if self.windowed(layer) else global_head_dim(s)
            rows, pairs = s.heads * dim, (kv_heads or s.kv_heads) * dim
            out = [matrix("attn_q", rows, s.width), matrix("attn_output", s.width, rows),
                   ("attn_q_norm.weight", "small norm", (dim,))]
            if has_keys:
                out += [matrix("attn_k", pairs, s.width),
                        ("attn_k_norm.weight", "small norm", (dim,))]
            if has_keys and has_values:
                out.append(matrix("attn_v", pairs, s.width))
            return out
        return tensors

    def layer_embedding(self, s):
        """What a layer makes of its embedding."""
        return [matrix("inp_gate", self.embedding, s.width),
                matrix("proj", s.width, self.embedding), ("post_norm.weight", "norm", (s.width,))]

    def small_layer(self, norms, s):
        """The parts of each layer of E2B and E4B."""
        def parts(layer):
            own = layer < s.layers - self.shared
            return (norms, self.attention(layer, own), dense(1 if own else 2),
                    self.layer_embedding, output_scale)
        return parts

    def mixture_layer(self, norms, s):
        """The same of 26B-A4B."""
        def parts(layer):
            values = self.windowed(layer)
            heads = s.kv_heads if values else GLOBAL_KV_HEADS
            return (norms, self.attention(layer, True, values, heads), dense(), mixture,
                    output_scale)
        return parts


TINY = Gemma4()


def dense(times=1):
    return lambda s: [matrix("ffn_gate", s.ffn * times, s.width),
                      matrix("ffn_up", s.ffn * times, s.width),
                      matrix("ffn_down", s.width, s.ffn * times)]


def output_scale(s):
    """What a layer's output is multiplied by."""
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
