"""The sizes of the tiny models, and the parts of layers that most architectures have."""
import dataclasses

VOCABULARY = 320
TOKENS = 48
WINDOW = 8
# Golden logits hold every fifth token. These are 64, as many as the narrowest model is wide, so a
# wrong last activation cannot hide between them.
COLUMNS = slice(0, VOCABULARY, 5)
EXPERTS, USED = 8, 2
EPSILON = 0.01  # so large that another value changes every logit


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int = 4
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    ffn: int = 128
    experts: int = 64  # the width of one
    choices: int = EXPERTS  # the number of experts
    vocabulary: int = VOCABULARY


SMALL = Sizes()
WIDE = Sizes(width=128)  # for architectures whose heads share the width, as they have no key_length


# ---- Parts of a layer: functions of the sizes that list tensors as (name, kind, shape).

def matrix(name, rows, columns):
    return (f"{name}.weight", "matrix", (rows, columns))


def norms(*names):
    return lambda s: [(f"{name}.weight", "norm", (s.width,)) for name in names]


def attention(biases="", norm="", fused=False, sinks=False):
    """`biases` names the matrices that have one; `norm` is that of queries and keys."""
    def tensors(s):
        rows = {"q": s.heads * s.head_dim, "k": s.kv_heads * s.head_dim,
                "v": s.kv_heads * s.head_dim}
        out = [matrix("attn_qkv", sum(rows.values()), s.width)] if fused else [
            matrix(f"attn_{x}", rows[x], s.width) for x in rows]
        out.append(matrix("attn_output", s.width, rows["q"]))
        rows["output"] = s.width
        out += [(f"attn_{x}.bias", "bias", (rows[x],)) for x in biases.split()]
        if norm:
            size = {"head": lambda x: s.head_dim, "width": lambda x: rows[x]}[norm]
            out += [(f"attn_{x}_norm.weight", "norm", (size(x),)) for x in "qk"]
        if sinks:
            out.append(("attn_sinks.weight", "bias", (s.heads,)))
        return out
    return tensors


def dense(fused=False):
    def tensors(s):
        gates = [] if fused else [matrix("ffn_gate", s.ffn, s.width)]
        return gates + [matrix("ffn_up", s.ffn * (2 if fused else 1), s.width),
                        matrix("ffn_down", s.width, s.ffn)]
    return tensors


def experts(biases=False, choice=None, shared=0, shared_gate=False, fused=False):
    """`choice` is the shape of the bias that chooses; `shared` is the width of the expert of all
    tokens; with `fused` gates and ups are one tensor."""
    def tensors(s):
        shapes = {"gate": (s.experts, s.width), "up": (s.experts, s.width),
                  "down": (s.width, s.experts)}
        if fused:
            shapes = {"gate_up": (2 * s.experts, s.width), "down": shapes["down"]}
        out = [matrix("ffn_gate_inp", s.choices, s.width)]
        out += [(f"ffn_{x}_exps.weight", "matrix", (s.choices, *shape))
                for x, shape in shapes.items()]
        if biases:
            out.append(("ffn_gate_inp.bias", "bias", (s.choices,)))
            out += [(f"ffn_{x}_exps.bias", "bias", (s.choices, shape[0]))
                    for x, shape in shapes.items()]
        if choice:
            out.append(("exp_probs_b.bias", "choice", choice))
        if shared:
            out += [matrix("ffn_gate_shexp", shared, s.width),
                    matrix("ffn_up_shexp", shared, s.width),
                    matrix("ffn_down_shexp", s.width, shared)]
        if shared_gate:
            out.append(matrix("ffn_gate_inp_shexp", 1, s.width))
        return out
    return tensors


def every(*parts):
    """All layers have the same parts."""
    return lambda layer: parts


PRE = norms("attn_norm", "ffn_norm")
PRE_RENAMED = norms("attn_norm", "post_attention_norm")
SANDWICH = norms("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
