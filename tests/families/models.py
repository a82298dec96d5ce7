"""The tiny models, one for each way in which an architecture's files differ: metadata and tensors
as the ecosystem's converter writes them. hugging_face.py has the same models as configurations.

Each kind of layer occurs twice or more. Windows are 8, a fraction of the tokens that tests compute.
"""
import dataclasses
import hashlib
import json
from collections.abc import Callable

import numpy as np

import gemma4
import weights
from latents import DEEPSEEK, DEEPSEEK_LITE, GLM_LITE, MISTRAL4, latent_attention
from parts import (COLUMNS, EPSILON, EXPERTS, PRE, PRE_RENAMED, SANDWICH, SMALL, TOKENS, USED,
                   VOCABULARY, WIDE, WINDOW, Sizes, attention, dense, every, experts, matrix, norms)
from recurrent import (DELTA, SHORT_TAPS, by_layer, delta_net, gated_attention, mamba, mamba_keys,
                       short_convolution, squared, squared_experts)

@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    layer: Callable  # number -> parts; the parts of each layer
    keys: dict = dataclasses.field(default_factory=dict)  # without the architecture; None: no key
    architecture: str = ""
    sizes: Sizes = SMALL
    context: int = 512
    tied: bool = False
    last_norm: str = "output_norm"
    outside: Callable = lambda s: []  # further tensors outside layers, as a part's
    fixed: dict = dataclasses.field(default_factory=dict)  # tensors whose values are given

    @property
    def arch(self):
        return self.architecture or self.name

    def metadata(self):
        s = self.sizes
        keys = {
            "block_count": s.layers, "context_length": self.context, "embedding_length": s.width,
            "feed_forward_length": s.ffn, "attention.head_count": s.heads,
            "attention.head_count_kv": s.kv_heads, "attention.layer_norm_rms_epsilon": EPSILON,
            "rope.freq_base": 10000.0}
        if s.width != s.heads * s.head_dim:
            keys |= {"attention.key_length": s.head_dim, "attention.value_length": s.head_dim}
        keys |= self.keys
        return {f"{self.arch}.{k}": v for k, v in keys.items() if v is not None}

    def entries(self):
        """(name, kind, shape) of every random tensor, in the order of the file."""
        # As an output matrix, the embedding is small, unless the logits are scaled down.
        small = self.tied and "logit_scale" not in self.keys
        s = self.sizes
        out = [("token_embd.weight", "matrix" if small else "embedding", (s.vocabulary, s.width)),
               (f"{self.last_norm}.weight", "norm", (s.width,))]
        if not self.tied:
            out.append(matrix("output", s.vocabulary, s.width))
        out += self.outside(s)
        return out + [(f"blk.{layer}.{name}", kind, shape) for layer in range(s.layers)
                      for part in self.layer(layer) for name, kind, shape in part(s)]

    def tensors(self):
        """Name -> float32 array, in the order of the file."""
        return self.fixed | {name: weights.tensor(self.name, name, kind, shape)
                             for name, kind, shape in self.entries()}

    def digest(self):
        """Of all that golden logits depend on."""
        digest = hashlib.sha256(json.dumps(self.metadata()).encode())
        for name, values in self.tensors().items():
            digest.update(f"{name} {values.shape}".encode() + values.astype("<f4").tobytes())
        digest.update(json.dumps(self.prompt()).encode())
        return digest.hexdigest()[:16]

    def prompt(self):
        return weights.tokens(self.name, TOKENS)


def llama3_divisors(base, dim, factor, low, high, original):
    frequencies = base ** (-np.arange(0, dim, 2) / dim)
    turns = original * frequencies / (2 * np.pi)  # over the original context
    smooth = (turns - low) / (high - low)
    middle = 1 / ((1 - smooth) / factor + smooth)
    return np.where(turns > high, 1, np.where(turns < low, factor, middle)).astype(np.float32)


def rope_factors(step):
    return (1 + step * np.arange(16)).astype(np.float32)


# Keys that several models have.
VOCABULARY_SIZE = {"vocab_size": VOCABULARY}
ROPE_32, ROPE_16 = {"rope.dimension_count": 32}, {"rope.dimension_count": 16}
CHOICE = {"expert_count": EXPERTS, "expert_used_count": USED}
MOE = CHOICE | {"expert_feed_forward_length": 64}
GRANITE = {"attention.scale": 0.0156, "embedding_scale": 12.0, "residual_scale": 0.22}
WINDOWED = {"attention.sliding_window": WINDOW}


def yarn(factor, original):
    return {"rope.scaling.type": "yarn", "rope.scaling.factor": factor,
            "rope.scaling.original_context_length": original,
            "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0}


def latent_layers(dense_layers, part, **options):  # the first layers are dense
    return lambda layer: (PRE, part, dense() if layer < dense_layers else experts(**options))


LLAMA = every(PRE, attention(), dense())
OLMO = every(norms("post_attention_norm", "post_ffw_norm"), attention(norm="width"), dense())
PHI = every(PRE, attention(fused=True), dense(fused=True))
GEMMA_6, GEMMA_12 = (dataclasses.replace(SMALL, layers=n, head_dim=gemma4.HEAD_DIM)
                     for n in (6, 12))
EXPERT_64 = dataclasses.replace(SMALL, ffn=64)  # feed_forward_length is an expert's width
HEADS_64 = dataclasses.replace(SMALL, layers=8, head_dim=64)
QWEN35 = DELTA | ROPE_16 | {
    "rope.freq_base": 1e7, "rope.dimension_sections": [3, 3, 2, 0],
    "attention.recurrent_layers": [True, True, True, False] * 2}


def mixer(layer, joined=False):
    """Every fourth layer of Qwen's hybrids attends."""
    return gated_attention if layer % 4 == 3 else delta_net(joined)


WIDE_6 = dataclasses.replace(WIDE, layers=6)
# Layers by letter: c convolution, m Mamba 2, a attention.
LFM2_LAYERS, GRANITE_LAYERS = "ccacac", "mmamam"
LFM2 = VOCABULARY_SIZE | {"rope.freq_base": 1e6, "shortconv.l_cache": SHORT_TAPS,
                          "attention.head_count_kv": by_layer(LFM2_LAYERS, {"a": WIDE.kv_heads})}
# Its scales are none of real files, whose layers add so little that a wrong state would hide.
GRANITE_HYBRID = VOCABULARY_SIZE | ROPE_32 | mamba_keys(WIDE) | {
    "attention.scale": 0.2, "embedding_scale": 1.5, "residual_scale": 0.6, "logit_scale": 8.0,
    "rope.scaling.finetuned": False,
    "attention.head_count_kv": by_layer(GRANITE_LAYERS, {"a": WIDE.kv_heads})}


def lfm2_mixer(layer):
    return attention(norm="head") if LFM2_LAYERS[layer] == "a" else short_convolution


def granite_mixer(layer):
    return attention() if GRANITE_LAYERS[layer] == "a" else mamba()


HYBRID_8 = dataclasses.replace(SMALL, layers=8)
# A layer is one of these: M Mamba 2, * attention, - a feed-forward, E experts.
NEMOTRON_LAYERS, NEMOTRON_MOE_LAYERS = "M-M*M-*-", "MEM*ME*E"


def nemotron_layer(letters):
    parts = {"M": mamba(), "*": attention(), "-": squared, "E": squared_experts(96)}
    return lambda layer: (norms("attn_norm"), parts[letters[layer]])


def nemotron_keys(letters, ffn):
    return VOCABULARY_SIZE | ROPE_16 | mamba_keys(HYBRID_8) | {
        "attention.layer_norm_epsilon": EPSILON,
        "attention.head_count_kv": by_layer(letters, {"*": HYBRID_8.kv_heads}),
        "feed_forward_length": by_layer(letters, {"-": ffn, "E": ffn}),
        "rope.scaling.finetuned": False, "rope.freq_base": None}


def falcon_norm(s):
    return [("ffn_norm", "norm", (s.width,))]


MODELS = {model.name: model for model in [
    Model("llama", LLAMA, VOCABULARY_SIZE | ROPE_32 | {"rope.freq_base": 5e5},
          fixed={"rope_freqs.weight": llama3_divisors(5e5, 32, 8.0, 1.0, 4.0, 32)}),
    Model("mistral", LLAMA, VOCABULARY_SIZE | ROPE_32 | WINDOWED, "llama"),
    Model("mixtral", every(PRE, attention(), experts()),
          VOCABULARY_SIZE | ROPE_32 | CHOICE | {"rope.freq_base": 1e6}, "llama", EXPERT_64),
    Model("qwen2", every(PRE, attention("q k v"), dense()), {"rope.freq_base": 1e6}, sizes=WIDE),
    Model("qwen2moe", every(PRE, attention("q k v"), experts(shared=96, shared_gate=True)),
          MOE | {"rope.freq_base": 1e6, "expert_shared_feed_forward_length": 96}, sizes=WIDE),
    Model("qwen3", every(PRE, attention(norm="head"), dense()), {"rope.freq_base": 1e6},
          tied=True),
    Model("qwen3moe", every(PRE, attention(norm="head"), experts()),
          MOE | {"rope.freq_base": 1e6}),
    Model("gemma2", every(SANDWICH, attention(), dense()),
          WINDOWED | {"rope.freq_base": None, "attn_logit_softcapping": 2.0,
                      "final_logit_softcapping": 5.0}, tied=True),
    # Five of six layers have a window, which the file does not state.
    Model("gemma3", every(SANDWICH, attention(norm="head"), dense()),
          WINDOWED | {"rope.freq_base": 1e6, "rope.freq_base_swa": 1e4,
                      "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
          sizes=dataclasses.replace(SMALL, layers=12), tied=True),
    Model("gemma4", gemma4.TINY.small_layer(SANDWICH, GEMMA_12),
          gemma4.TINY.small_keys(GEMMA_12, WINDOW), sizes=GEMMA_12, tied=True,
          fixed={"rope_freqs.weight": gemma4.turned(GEMMA_12)}, outside=gemma4.TINY.embeddings),
    Model("gemma4-moe", gemma4.TINY.mixture_layer(SANDWICH, GEMMA_6),
          MOE | gemma4.TINY.mixture_keys(GEMMA_6, WINDOW), "gemma4", GEMMA_6, tied=True,
          fixed={"rope_freqs.weight": gemma4.turned(GEMMA_6)}),
    # Has the numbers of the real model's rope, whose range's ends are no whole numbers.
    Model("gpt-oss", every(PRE_RENAMED, attention("q k v output", sinks=True),
                           experts(biases=True)),
          MOE | WINDOWED | yarn(32.0, 4096) | {"rope.freq_base": 150000.0},
          sizes=dataclasses.replace(EXPERT_64, head_dim=64), context=131072),
    Model("mistral3", LLAMA,
          VOCABULARY_SIZE | ROPE_32 | yarn(16.0, 16) | {
              "rope.freq_base": 1e6, "rope.scaling.yarn_log_multiplier": 1.0,
              "attention.temperature_scale": 0.1}, context=256),
    Model("granite", LLAMA, VOCABULARY_SIZE | ROPE_32 | GRANITE | {"logit_scale": 8.0},
          sizes=WIDE, tied=True),
    Model("granitemoe", every(PRE, attention(), experts()),
          VOCABULARY_SIZE | ROPE_32 | CHOICE | GRANITE | {"logit_scale": 6.0},
          sizes=dataclasses.replace(WIDE, ffn=64), tied=True),
    Model("glm4", every(SANDWICH, attention("q k v"), dense(fused=True)), ROPE_16),
    Model("glm4moe", lambda layer: (
        PRE_RENAMED, attention("q k v", norm="head"),
        dense() if layer < 2 else experts(choice=(EXPERTS,), shared=64)),
          MOE | ROPE_16 | {
              "rope.freq_base": 1e6, "expert_group_count": 1, "expert_group_used_count": 1,
              "expert_shared_count": 1, "leading_dense_block_count": 2, "expert_gating_func": 2,
              "expert_weights_scale": 1.5, "expert_weights_norm": True}),
    Model("minimax-m2", every(PRE, attention(norm="width"), experts(choice=(EXPERTS,))),
          MOE | ROPE_16 | {"rope.freq_base": 5e6, "expert_gating_func": 2}, sizes=EXPERT_64),
    Model("phi3", PHI, ROPE_32 | {"attention.sliding_window": 0,
                                  "rope.scaling.original_context_length": 512}, sizes=WIDE),
    Model("phi3-long", PHI,
          ROPE_32 | {"attention.sliding_window": 0, "rope.scaling.original_context_length": 32,
                     "rope.scaling.attn_factor": 1.341640786499874}, "phi3", WIDE,
          fixed={"rope_factors_long.weight": rope_factors(0.5),
                 "rope_factors_short.weight": rope_factors(0.05)}),
    Model("olmo2", OLMO, {"rope.freq_base": 5e5}, sizes=WIDE),
    Model("olmo3", OLMO,
          WINDOWED | yarn(8.0, 64) | {
              "rope.freq_base": 5e5, "rope.freq_base_swa": 5e5,
              "rope.scaling.yarn_attn_factor": 1.2079441541679836,
              "attention.sliding_window_pattern": [True, True, True, False] * 2},
          "olmo2", dataclasses.replace(WIDE, layers=8)),
    # Every fourth layer does not rotate, which the file does not state.
    Model("smollm3", LLAMA, VOCABULARY_SIZE | ROPE_32 | {"rope.freq_base": 2e6},
          sizes=dataclasses.replace(SMALL, layers=8), tied=True),
    Model("seed_oss", every(PRE_RENAMED, attention("q k v"), dense())),
    Model("ernie4_5", LLAMA, {"rope.freq_base": 5e5}, tied=True),
    Model("ernie4_5-moe", lambda layer: (
        PRE, attention(), dense() if layer < 2 else experts(choice=(1, EXPERTS), shared=64)),
          MOE | {"rope.freq_base": 5e5, "interleave_moe_layer_step": 1,
                 "leading_dense_block_count": 2, "expert_shared_count": 1,
                 "expert_shared_feed_forward_length": 64}, tied=True),
    Model("hunyuan-dense", every(PRE, attention(norm="head"), dense()),
          {"rope.freq_base": 1e4 * 1000 ** (32 / 30), "rope.scaling.type": "none",
           "rope.scaling.factor": 1.0, "rope.scaling.original_context_length": 262144},
          context=262144, tied=True),
    # Every fourth layer has neither window nor rope, which the file does not state.
    Model("cohere2", every(norms("attn_norm"), attention(), dense()),
          VOCABULARY_SIZE | ROPE_32 | WINDOWED | {
              "attention.layer_norm_rms_epsilon": None, "attention.layer_norm_epsilon": EPSILON,
              "logit_scale": 0.25, "attention.key_length": 32, "attention.value_length": 32,
              "rope.scaling.type": "none"},
          sizes=dataclasses.replace(WIDE, layers=8), tied=True),
    Model("qwen35", lambda layer: (PRE_RENAMED, mixer(layer), dense()), QWEN35, sizes=HEADS_64),
    Model("qwen35moe", lambda layer: (
        PRE_RENAMED, mixer(layer), experts(shared=96, shared_gate=True)),
          QWEN35 | MOE | {"expert_shared_feed_forward_length": 96}, sizes=HEADS_64),
    Model("lfm2", lambda layer: (PRE, lfm2_mixer(layer), dense()), LFM2, sizes=WIDE_6, tied=True,
          last_norm="token_embd_norm"),
    Model("lfm2moe", lambda layer: (
        PRE, lfm2_mixer(layer), dense() if layer < 2 else experts(choice=(EXPERTS,))),
          LFM2 | MOE | {"leading_dense_block_count": 2, "expert_gating_func": 2},
          sizes=WIDE_6, tied=True, last_norm="token_embd_norm"),
    Model("mamba2", every(norms("attn_norm"), mamba()),
          mamba_keys(SMALL) | {
              "feed_forward_length": 0, "attention.head_count": 0,
              "attention.head_count_kv": None, "attention.key_length": None,
              "attention.value_length": None, "rope.freq_base": None}, context=2 ** 20),
    Model("granitehybrid", lambda layer: (PRE, granite_mixer(layer), dense()),
          GRANITE_HYBRID | {"expert_count": 0, "expert_used_count": 0,
                            "expert_shared_feed_forward_length": 128},
          sizes=WIDE_6, context=2 ** 20, tied=True),
    Model("granitehybrid-moe", lambda layer: (PRE, granite_mixer(layer), experts(shared=96)),
          GRANITE_HYBRID | CHOICE | {"expert_shared_feed_forward_length": 96}, "granitehybrid",
          dataclasses.replace(WIDE_6, ffn=64), context=2 ** 20, tied=True),
    Model("qwen3next", lambda layer: (
        PRE_RENAMED, mixer(layer, joined=True), experts(shared=96, shared_gate=True)),
          DELTA | MOE | ROPE_16 | {
              "rope.freq_base": 1e7, "expert_shared_feed_forward_length": 96,
              "attention.recurrent_layers": [True, True, True, False] * 2}, sizes=HEADS_64),
    Model("nemotron_h", nemotron_layer(NEMOTRON_LAYERS), nemotron_keys(NEMOTRON_LAYERS, 128),
          sizes=HYBRID_8, context=2 ** 20),
    Model("nemotron_h_moe", nemotron_layer(NEMOTRON_MOE_LAYERS),
          MOE | nemotron_keys(NEMOTRON_MOE_LAYERS, 64) | {
              "expert_shared_feed_forward_length": 96, "expert_shared_count": 1,
              "expert_weights_norm": True, "expert_weights_scale": 2.5, "expert_group_count": 1,
              "expert_group_used_count": 1, "attention.layer_norm_rms_epsilon": None},
          sizes=HYBRID_8, context=2 ** 20),
    Model("falcon-h1", every(norms("attn_norm"), attention(), mamba(norm=False), falcon_norm,
                             dense()),
          VOCABULARY_SIZE | mamba_keys(SMALL) | {"rope.freq_base": 1e6}),
    # Latent attention; experts in groups.
    Model("deepseek2", latent_layers(2, latent_attention(), choice=(EXPERTS,), shared=64),
          VOCABULARY_SIZE | MOE | yarn(8.0, 64) | DEEPSEEK),
    # llama.cpp knows it by the number of its layers. Few of them choose experts, because choices
    # between so many layers turn by the rounding of halves alone.
    Model("deepseek2-lite", latent_layers(22, latent_attention(query=0), shared=64),
          VOCABULARY_SIZE | MOE | yarn(4.0, 64) | DEEPSEEK_LITE, "deepseek2",
          dataclasses.replace(SMALL, layers=26, experts=32)),
    Model("glm4moe-lite", latent_layers(
        1, latent_attention(plain=48), choice=(EXPERTS,), shared=64),
          VOCABULARY_SIZE | MOE | GLM_LITE, "deepseek2"),
    Model("mistral4", latent_layers(0, latent_attention(), shared=64, fused=True),
          VOCABULARY_SIZE | MOE | yarn(16.0, 16) | MISTRAL4, context=256),
]}
