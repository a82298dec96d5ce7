"""Parts of layers that keep a state, and the keys that state its sizes: gated delta nets, Mamba 2
mixers and short convolutions, as the ecosystem's converter names and shapes them.

A key head serves four value heads, and a group of B and C four heads, so that a program that takes
the wrong one shows.
"""
import dataclasses

CONV = 4  # taps of a convolution


@dataclasses.dataclass(frozen=True)
class Delta:
    """The sizes of a delta net."""
    key_heads: int = 2
    value_heads: int = 8
    state: int = 32

    def keys(self):
        return {"ssm.conv_kernel": CONV, "ssm.state_size": self.state,
                "ssm.group_count": self.key_heads, "ssm.time_step_rank": self.value_heads,
                "ssm.inner_size": self.value_heads * self.state, "full_attention_interval": 4}


SMALL_DELTA = Delta()
KEY_HEADS, VALUE_HEADS = SMALL_DELTA.key_heads, SMALL_DELTA.value_heads
DELTA_STATE = SMALL_DELTA.state
GROUPS, MAMBA_HEADS, MAMBA_STATE = 2, 8, 32
SHORT_TAPS = 3


def matrix(name, rows, columns):
    return (f"{name}.weight", "matrix", (rows, columns))


def inner(s):
    """The channels of a Mamba 2 mixer. All its heads together are twice as wide as the model."""
    return 2 * s.width


# ---- Keys.

DELTA = SMALL_DELTA.keys()


def mamba_keys(s):
    return {"ssm.conv_kernel": CONV, "ssm.state_size": MAMBA_STATE, "ssm.group_count": GROUPS,
            "ssm.time_step_rank": MAMBA_HEADS, "ssm.inner_size": inner(s)}


def by_layer(letters, values):
    """An array of a number for each layer: 0 for layers whose letter has none."""
    return [values.get(letter, 0) for letter in letters]


# ---- Parts of a layer: functions of the sizes that list tensors as (name, kind, shape).

def gated_attention(s):
    """Each head has as many rows again for the gate of its output."""
    rows, pairs = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return [matrix("attn_q", 2 * rows, s.width), matrix("attn_k", pairs, s.width),
            matrix("attn_v", pairs, s.width), matrix("attn_output", s.width, rows),
            ("attn_q_norm.weight", "norm", (s.head_dim,)),
            ("attn_k_norm.weight", "norm", (s.head_dim,))]


def delta_net(joined=False, delta=SMALL_DELTA):
    """`joined`: one matrix gives alpha and beta."""
    def tensors(s):
        heads = delta.value_heads
        keys, values = delta.key_heads * delta.state, heads * delta.state
        factors = [matrix("ssm_ba", 2 * heads, s.width)] if joined else [
            matrix(f"ssm_{x}", heads, s.width) for x in ("beta", "alpha")]
        return factors + [
            matrix("attn_qkv", 2 * keys + values, s.width), matrix("attn_gate", values, s.width),
            ("ssm_conv1d.weight", "taps", (2 * keys + values, CONV)),
            ("ssm_dt.bias", "step", (heads,)), ("ssm_a", "decay", (heads,)),
            ("ssm_norm.weight", "norm", (delta.state,)), matrix("ssm_out", s.width, values)]
    return tensors


def mamba(norm=True):
    def tensors(s):
        convolved = inner(s) + 2 * GROUPS * MAMBA_STATE
        out = [matrix("ssm_in", inner(s) + convolved + MAMBA_HEADS, s.width),
               ("ssm_conv1d.weight", "taps", (convolved, CONV)),
               ("ssm_conv1d.bias", "bias", (convolved,)),
               ("ssm_dt.bias", "step", (MAMBA_HEADS,)), ("ssm_a", "decay", (MAMBA_HEADS, 1)),
               ("ssm_d", "norm", (MAMBA_HEADS, 1)), matrix("ssm_out", s.width, inner(s))]
        if norm:
            out.append(("ssm_norm.weight", "norm", (GROUPS, inner(s) // GROUPS)))
        return out
    return tensors


def short_convolution(s):
    return [matrix("shortconv.in_proj", 3 * s.width, s.width),
            ("shortconv.conv.weight", "taps", (s.width, SHORT_TAPS)),
            matrix("shortconv.out_proj", s.width, s.width)]


def squared(s):
    """A feed-forward without gate, relu(x)^2."""
    return [matrix("ffn_up", s.ffn, s.width), matrix("ffn_down", s.width, s.ffn)]


def squared_experts(shared):
    """Such experts; `shared` is the width of the expert of all tokens."""
    def tensors(s):
        return [matrix("ffn_gate_inp", s.choices, s.width),
                ("exp_probs_b.bias", "choice", (s.choices,)),
                ("ffn_up_exps.weight", "matrix", (s.choices, s.experts, s.width)),
                ("ffn_down_exps.weight", "matrix", (s.choices, s.width, s.experts)),
                matrix("ffn_up_shexp", shared, s.width), matrix("ffn_down_shexp", s.width, shared)]
    return tensors
