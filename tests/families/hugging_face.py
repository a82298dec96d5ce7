"""The tiny models as the official classes of PyPI `transformers`, with the same weights. Needs the
packages of this folder's requirements.txt.

configuration() undoes what the converter does to keys; checkpoint.py does so to tensors.
"""
import contextlib

import numpy as np
import torch
import transformers

import hugging_face_gemma4 as gemma4
import hugging_face_recurrent as recurrent
from checkpoint import parameters
from models import EPSILON, EXPERTS, USED, VOCABULARY, WINDOW

LAST = dict(bos_token_id=VOCABULARY - 4, eos_token_id=VOCABULARY - 3, pad_token_id=VOCABULARY - 2)


def plain(theta, **more):
    return dict(rope_type="default", rope_theta=theta, **more)


def yarn(theta, factor, original, **more):
    return dict(rope_type="yarn", rope_theta=theta, factor=factor, beta_fast=32.0, beta_slow=1.0,
                original_max_position_embeddings=original, **more)


MOE = dict(num_experts=EXPERTS, num_experts_per_tok=USED, moe_intermediate_size=64)
LOCAL_MOE = dict(num_local_experts=EXPERTS, num_experts_per_tok=USED, intermediate_size=64)
GRANITE = dict(embedding_multiplier=12.0, residual_multiplier=0.22, attention_multiplier=0.0156)
LLAMA3 = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=32)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, partial_rotary_factor=1.0,
                original_max_position_embeddings=32,
                long_factor=[1.0 + 0.5 * i for i in range(16)],
                short_factor=[1.0 + 0.05 * i for i in range(16)])

LATENT_MOE = dict(n_routed_experts=EXPERTS, num_experts_per_tok=USED, n_shared_experts=1,
                  moe_intermediate_size=64, kv_lora_rank=32, qk_nope_head_dim=16,
                  qk_rope_head_dim=16, v_head_dim=48, n_group=1, topk_group=1,
                  norm_topk_prob=True)

# Model -> the class's name without "Config" and "ForCausalLM", and what its configuration adds.
CLASSES = {
    "llama": ("Llama", dict(rope_parameters=LLAMA3)),
    "mistral": ("Mistral", dict(sliding_window=WINDOW, rope_parameters=plain(1e4))),
    "mixtral": ("Mixtral", dict(LOCAL_MOE, sliding_window=None, rope_parameters=plain(1e6))),
    "qwen2": ("Qwen2", dict(rope_parameters=plain(1e6))),
    "qwen2moe": ("Qwen2Moe", dict(MOE, shared_expert_intermediate_size=96, norm_topk_prob=False,
                                  rope_parameters=plain(1e6))),
    "qwen3": ("Qwen3", dict(rope_parameters=plain(1e6))),
    "qwen3moe": ("Qwen3Moe", dict(MOE, norm_topk_prob=True, decoder_sparse_step=1,
                                  mlp_only_layers=[], rope_parameters=plain(1e6))),
    "gemma2": ("Gemma2", dict(sliding_window=WINDOW, query_pre_attn_scalar=32,
                              attn_logit_softcapping=2.0, final_logit_softcapping=5.0)),
    "gemma3": ("Gemma3", dict(
        sliding_window=WINDOW, query_pre_attn_scalar=32,
        rope_parameters=dict(sliding_attention=plain(1e4),
                             full_attention=dict(plain(1e6), rope_type="linear", factor=8.0)))),
    "gpt-oss": ("GptOss", dict(
        LOCAL_MOE, sliding_window=WINDOW,
        rope_parameters=yarn(150000.0, 32.0, 4096, truncate=False))),
    "mistral3": ("Ministral3", dict(rope_parameters=yarn(
        1e6, 16.0, 16, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    "granite": ("Granite", dict(GRANITE, logits_scaling=8.0)),
    "granitemoe": ("GraniteMoe", dict(GRANITE, **LOCAL_MOE, logits_scaling=6.0)),
    "glm4": ("Glm4", dict(attention_bias=True,
                          rope_parameters=plain(1e4, partial_rotary_factor=0.5))),
    "glm4moe": ("Glm4Moe", dict(
        attention_bias=True, use_qk_norm=True, n_routed_experts=EXPERTS, num_experts_per_tok=USED,
        n_shared_experts=1, moe_intermediate_size=64, first_k_dense_replace=2, norm_topk_prob=True,
        routed_scaling_factor=1.5, n_group=1, topk_group=1,
        rope_parameters=plain(1e6, partial_rotary_factor=0.5))),
    "minimax-m2": ("MiniMaxM2", dict(LOCAL_MOE, rotary_dim=16,
                                     rope_parameters=plain(5e6, partial_rotary_factor=0.5))),
    "phi3": ("Phi3", dict(original_max_position_embeddings=512)),
    "phi3-long": ("Phi3", dict(original_max_position_embeddings=32, rope_parameters=LONGROPE)),
    "olmo2": ("Olmo2", dict(rope_parameters=plain(5e5))),
    "olmo3": ("Olmo3", dict(sliding_window=WINDOW, rope_parameters=dict(
        sliding_attention=plain(5e5),
        full_attention=yarn(5e5, 8.0, 64, attention_factor=1.2079441541679836)))),
    "smollm3": ("SmolLM3", dict(no_rope_layer_interval=4, rope_parameters=plain(2e6))),
    "seed_oss": ("SeedOss", dict(attention_bias=True, rope_parameters=plain(1e4))),
    "ernie4_5": ("Ernie4_5", dict(rope_parameters=plain(5e5))),
    "ernie4_5-moe": ("Ernie4_5_Moe", dict(
        moe_num_experts=EXPERTS, moe_k=USED, moe_intermediate_size=64, moe_num_shared_experts=1,
        moe_layer_start_index=2, rope_parameters=plain(5e5))),
    "hunyuan-dense": ("HunYuanDenseV1", dict(max_position_embeddings=32768, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e4, alpha=1000.0, factor=1.0))),
    "deepseek2": ("DeepseekV3", dict(
        LATENT_MOE, q_lora_rank=48, n_group=4, topk_group=2, first_k_dense_replace=2,
        routed_scaling_factor=2.5, rope_parameters=yarn(1e4, 8.0, 64, mscale=1.0,
                                                        mscale_all_dim=1.0))),
    "deepseek2-lite": ("DeepseekV2", dict(
        LATENT_MOE, n_shared_experts=2, moe_intermediate_size=32, q_lora_rank=None,
        topk_method="greedy", n_group=None, topk_group=None, norm_topk_prob=False,
        first_k_dense_replace=22,
        rope_parameters=yarn(1e4, 4.0, 64, mscale=0.707, mscale_all_dim=0.707))),
    "glm4moe-lite": ("Glm4MoeLite", dict(
        LATENT_MOE, q_lora_rank=48, qk_nope_head_dim=48, routed_scaling_factor=1.8,
        rope_parameters=plain(1e6))),
    "mistral4": ("Mistral4", dict(
        LATENT_MOE, q_lora_rank=48, first_k_dense_replace=0, rope_parameters=yarn(
            1e4, 16.0, 16, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1))),
    "cohere2": ("Cohere2", dict(sliding_window=WINDOW, logit_scale=0.25, rotary_pct=1.0)),
}

CLASSES |= recurrent.CLASSES | gemma4.CLASSES

# What llama.cpp computes for files of these models, where that is something else: it rounds the
# range of YaRN to whole frequencies, `llama` has no window, delta nets normalise queries and keys
# with the epsilon of norms, and so do the norms of latents, whose own is 1e-6.
AS_LLAMA_CPP = {
    **{name: dict(latent_norm_epsilon=EPSILON)
       for name in ("deepseek2", "deepseek2-lite", "glm4moe-lite", "mistral4")},
    "gpt-oss": dict(rope_parameters=yarn(150000.0, 32.0, 4096, truncate=True)),
    "mistral": dict(sliding_window=None),
    **{name: dict(key_norm_epsilon=EPSILON) for name in recurrent.DELTA_NETS},
}


EPSILONS = {"cohere2": "layer_norm_eps"} | recurrent.EPSILONS
TEXT_CONFIGS = {"Gemma3", "Gemma4", "Qwen3_5", "Qwen3_5Moe"}


def classes(name):
    """The classes of a model's configuration and of the model."""
    given = CLASSES[name][0]
    config = given + ("TextConfig" if given in TEXT_CONFIGS else "Config")
    return getattr(transformers, config), getattr(transformers, given + "ForCausalLM")


def configuration(model, changes=None):
    s = model.sizes
    values = dict(
        vocab_size=VOCABULARY, hidden_size=s.width, intermediate_size=s.ffn,
        num_hidden_layers=s.layers, num_attention_heads=s.heads,
        num_key_value_heads=s.heads if "attention.kv_lora_rank" in model.keys else s.kv_heads,
        max_position_embeddings=model.context, tie_word_embeddings=model.tied, **LAST)
    if s.width != s.heads * s.head_dim and "attention.kv_lora_rank" not in model.keys:
        values["head_dim"] = s.head_dim
    values[EPSILONS.get(model.name, "rms_norm_eps")] = EPSILON
    return classes(model.name)[0](**(values | CLASSES[model.name][1] | (changes or {})))


# ---- The forward pass.

@contextlib.contextmanager
def float64_for_float32():
    """Lets model code that casts to float32, in norms, rotations and softmax, keep float64."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def load(model, config, kind):
    made = classes(model.name)[1](config).eval().to(kind)
    made.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(values)).to(kind)
                          for name, values in parameters(model).items()})
    return made


def logits(model, tokens, changes=None):
    """float64 [tokens, vocabulary]. `changes` are of the configuration."""
    return many_logits(model, [tokens], changes)[0]


def many_logits(model, prompts, changes=None):
    """The same of several prompts of one length: [prompt, tokens, vocabulary]."""
    changes = dict(changes or {})
    epsilon = changes.pop("key_norm_epsilon", None)
    latent_epsilon = changes.pop("latent_norm_epsilon", None)
    with torch.inference_mode(), float64_for_float32(), recurrent.key_norm(model, epsilon):
        config = configuration(model, changes)
        config._attn_implementation = config._experts_implementation = "eager"
        network = load(model, config, torch.float64)
        for name, module in network.named_modules():
            if latent_epsilon and name.endswith("_a_layernorm"):
                module.variance_epsilon = latent_epsilon
        return network(torch.tensor(prompts), use_cache=False).logits.numpy()


def float32_network(model):
    return load(model, configuration(model), torch.float32)
