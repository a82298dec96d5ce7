"""Models of well-known shapes with random weights, as Q4_K_M files, for measuring speed.

A file has the types of llama.cpp's quantizer, and its blocks are random codes: nothing is
quantized. The same name gives the same bytes on every machine. Weights have the spread of
tests/families, so queries meet keys with scores of deviation 1, and experts are chosen about
evenly.
"""
import hashlib
import math
import pathlib
import sys

import gguf
import numpy as np

from .run import CACHE, ROOT

FAMILIES = ROOT / "tests/families"
sys.path.insert(0, str(FAMILIES))
import gemma4  # noqa: E402
import models  # noqa: E402
import recurrent  # noqa: E402
import weights  # noqa: E402
import write_gguf  # noqa: E402

F32, F16, Q4_K, Q5_K, Q6_K = (gguf.GGMLQuantizationType[name]
                              for name in ("F32", "F16", "Q4_K", "Q5_K", "Q6_K"))
KIND = "Q4_K_M"
BLOCK = 256  # weights
CHUNK = 1 << 12  # blocks that are made at once: they fit into the processor's cache

QWEN3 = {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}
QWEN3_DENSE = models.every(models.PRE, models.attention(norm="head"), models.dense())
QWEN3_EXPERTS = models.every(models.PRE, models.attention(norm="head"), models.experts())
VOCABULARY, CONTEXT = 151936, 40960

DELTA = recurrent.Delta(key_heads=16, value_heads=16, state=128)
# The layers of LFM2-1.2B that attend; the others convolve.
LFM2_ATTENDS = {2, 5, 8, 10, 12, 14}

E2B = gemma4.Gemma4(period=5, shared=20, embedding=256, final_softcap=30.0)
E2B_SIZES = models.Sizes(layers=35, width=1536, heads=8, kv_heads=1, head_dim=256, ffn=6144,
                         vocabulary=262144)


def qwen35_layer(layer):
    mixer = recurrent.gated_attention if layer % 4 == 3 else recurrent.delta_net(delta=DELTA)
    return models.PRE_RENAMED, mixer, models.dense()


def lfm2_layer(layer):
    attends = layer in LFM2_ATTENDS
    mixer = models.attention(norm="head") if attends else recurrent.short_convolution
    return models.PRE, mixer, models.dense()


SHAPES = {
    "qwen3-0.6b": models.Model(
        "qwen3-0.6b", QWEN3_DENSE, QWEN3, "qwen3",
        models.Sizes(layers=28, width=1024, heads=16, kv_heads=8, head_dim=128, ffn=3072,
                     vocabulary=VOCABULARY), CONTEXT, tied=True),
    "qwen3-30b-a3b": models.Model(  # with 4 of its 48 layers
        "qwen3-30b-a3b", QWEN3_EXPERTS,
        QWEN3 | {"expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768},
        "qwen3moe",
        models.Sizes(layers=4, width=2048, heads=32, kv_heads=4, head_dim=128, ffn=6144,
                     experts=768, choices=128, vocabulary=VOCABULARY), CONTEXT),
    "qwen3.5-0.8b": models.Model(
        "qwen3.5-0.8b", qwen35_layer,
        DELTA.keys() | {"attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e7,
                        "rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]},
        "qwen35",
        models.Sizes(layers=24, width=1024, heads=8, kv_heads=2, head_dim=256, ffn=3584,
                     vocabulary=248320), 262144, tied=True),
    "lfm2-1.2b": models.Model(
        "lfm2-1.2b", lfm2_layer,
        {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e6, "vocab_size": 65536,
         "shortconv.l_cache": recurrent.SHORT_TAPS,
         "attention.head_count_kv": [8 * (layer in LFM2_ATTENDS) for layer in range(16)]},
        "lfm2",
        models.Sizes(layers=16, width=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192,
                     vocabulary=65536), 128000, tied=True, last_norm="token_embd_norm"),
    "gemma4-e2b": models.Model(
        "gemma4-e2b", E2B.small_layer(models.SANDWICH, E2B_SIZES),
        E2B.small_keys(E2B_SIZES, window=512) | {"attention.layer_norm_rms_epsilon": 1e-6},
        "gemma4", E2B_SIZES, 131072, tied=True, outside=E2B.embeddings,
        fixed={"rope_freqs.weight": gemma4.turned(E2B_SIZES)}),
}


def has_more_bits(layer, layers):
    """llama.cpp's choice of the layers that get more bits: the first and the last eighth, and every
    third between them."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def type_of(name, kind, model):
    """The type of a tensor in a Q4_K_M file of llama.cpp's quantizer, for models without 8 experts
    and without fused matrices."""
    if kind not in ("matrix", "embedding") or "ffn_gate_inp" in name:
        return F32
    if name == "per_layer_model_proj.weight":  # which the quantizer leaves as it is
        return F16
    output = ("token_embd.weight", "per_layer_token_embd.weight") if model.tied else (
        "output.weight",)
    if name in output:
        return Q6_K
    if ".attn_qkv." in name:
        return Q5_K
    generous = any(part in name for part in ("attn_v.", "ffn_down.", "ffn_down_exps."))
    if generous and has_more_bits(int(name.split(".")[1]), model.sizes.layers):
        return Q6_K
    return Q4_K


def random_bytes(name, blocks, size):
    """[blocks, size] random bytes."""
    count = blocks * size
    return weights.integers(name, -(-count // 8)).astype("<u8").view(np.uint8)[:count].reshape(
        blocks, size)


# The deviation of a block's weights whose scale is 1. A weight of Q4_K is then (0 to 15 - 7.5)
# times 32 to 63, one of Q6_K (-32 to 31) times a scale of either sign between 64 and 128.
def deviation(steps, scales):
    return math.sqrt(np.mean(np.square(steps)) * np.mean(np.square(scales)))


DEVIATIONS = {Q4_K: deviation(np.arange(16) - 7.5, np.arange(32, 64)),
              Q5_K: deviation(np.arange(32) - 15.5, np.arange(32, 64)),
              Q6_K: deviation(np.arange(-32, 32), [*range(64, 128), *range(65, 129)])}


def half(value):
    return np.array([value], "<f2").view(np.uint8)


def affine_blocks(name, blocks, size, scale, middle):
    """Random blocks of Q4_K or Q5_K [blocks, size]: codes less `middle`, times the scale."""
    out = random_bytes(name, blocks, size)
    out[:, 0:2], out[:, 2:4] = half(scale), half(middle * scale)
    # Each group's minimum has the same 6 bits as its scale, so the weights are symmetric. Four
    # groups have their 6 bits in a byte that also holds the upper two of another group's.
    out[:, 4:8] |= 0xA0
    out[:, 8:12] = out[:, 4:8]
    out[:, 12:16] = (out[:, 12:16] & 0xF) * 17
    return out


def q4_k_blocks(name, blocks, spread):
    """Random blocks of Q4_K [blocks, 144] whose weights have this deviation and the mean 0."""
    return affine_blocks(name, blocks, 144, spread / DEVIATIONS[Q4_K], 7.5)


def q5_k_blocks(name, blocks, spread):
    """The same of Q5_K [blocks, 176]."""
    return affine_blocks(name, blocks, 176, spread / DEVIATIONS[Q5_K], 15.5)


def q6_k_blocks(name, blocks, spread):
    """Random blocks of Q6_K [blocks, 210] whose weights have this deviation and the mean 0."""
    out = random_bytes(name, blocks, 210)
    scales = out[:, 192:208]
    out[:, 192:208] = np.where(scales & 0x80, 0x80, 0x40) | (scales & 0x3F)
    out[:, 208:210] = half(spread / DEVIATIONS[Q6_K])
    return out


BLOCKS = {Q4_K: q4_k_blocks, Q5_K: q5_k_blocks, Q6_K: q6_k_blocks}


def quantized(name, shape, kind, spread):
    """The bytes of a random tensor [rows..., bytes of a row's blocks]."""
    blocks = math.prod(shape) // BLOCK
    made = [BLOCKS[kind](f"{name}/{start}", min(CHUNK, blocks - start), spread)
            for start in range(0, blocks, CHUNK)]
    return np.concatenate(made).reshape(*shape[:-1], -1)


def tensors_of(model):
    for name, values in model.fixed.items():
        yield write_gguf.Tensor(name, values.shape, lambda values=values: values)
    for name, kind, shape in model.entries():
        file_type = type_of(name, kind, model)
        if file_type in (F32, F16):
            def make(name=name, kind=kind, shape=shape, file_type=file_type):
                values = weights.tensor(model.name, name, kind, shape)
                return values.astype(np.float16) if file_type == F16 else values
        else:
            def make(name=name, kind=kind, shape=shape, file_type=file_type):
                # The deviation that tests/families gives a matrix, or an embedding.
                spread = 1.3 / math.sqrt(shape[-1]) if kind == "matrix" else 1.0
                return quantized(f"{model.name}/{name}", shape, file_type, spread)
        yield write_gguf.Tensor(name, shape, make, file_type)


def write(model, path):
    writer = write_gguf.start(model.arch, model.metadata(), path, model.name,
                              gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_gguf.add_tokenizer(writer, model.sizes.vocabulary, "qwen2")
    write_gguf.write_tensors(writer, list(tensors_of(model)))
    return path


def recipe():
    """A digest of the sources that decide the bytes of a file."""
    names = ("models", "parts", "recurrent", "gemma4", "weights", "write_gguf")
    sources = [pathlib.Path(__file__), *(FAMILIES / f"{name}.py" for name in names)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def path_of(name):
    """The model's file in the cache folder, written unless one of the same recipe is there."""
    path = CACHE / "random-models" / f"{name}.{KIND}.gguf"
    stamp = path.with_suffix(".recipe")
    if path.exists() and stamp.exists() and stamp.read_text() == recipe():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    part = path.with_suffix(".part")
    write(SHAPES[name], part)
    part.rename(path)
    stamp.write_text(recipe())
    return path
