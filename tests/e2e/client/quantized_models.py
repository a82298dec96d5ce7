"""Small models whose tensors llama.cpp's quantizer gives many types, and what it gives them.

    tests/e2e/client/quantized_models.py      makes quantized_types.json anew, with llama.cpp
"""
import itertools
import json
import pathlib
import re
import sys
import tempfile

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]
import llama_quantizer  # noqa: E402

KEPT = HERE / "quantized_types.json"
# Our name of each type -> llama.cpp's.
MIXES = {"F32": "ALL_F32", **{name: f"MOSTLY_{name}" for name in (
    "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1",
    "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4_MOE", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K")}}
# Architecture, layers, query heads, value heads, columns of ffn_down, experts, tied embeddings.
MODELS = {
    "dense": ("llama", 20, 8, 2, 256, 0, False),
    "tied": ("qwen3", 9, 4, 2, 384, 0, True),  # no whole super-blocks in ffn_down
    "fused": ("phi3", 16, 4, 4, 256, 0, False),
    "experts": ("llama", 16, 4, 4, 256, 8, False),
    "many-experts": ("qwen3moe", 6, 4, 1, 80, 16, False),  # rows that fit no block
    "large": ("llama", 80, 8, 1, 256, 0, False),
}
WIDTH = 256


def tensors(model):
    """Name -> shape in numpy's order."""
    arch, layers, heads, shared, down, experts, tied = MODELS[model]
    key = WIDTH // heads * shared
    shapes = {"token_embd.weight": (8, WIDTH), "output_norm.weight": (WIDTH,)}
    if not tied:
        shapes["output.weight"] = (8, WIDTH)
    for layer in range(layers):
        block = {"attn_norm.weight": (WIDTH,), "attn_output.weight": (4, WIDTH),
                 "ffn_norm.weight": (WIDTH,)}
        if arch == "phi3":
            block |= {"attn_qkv.weight": (12, WIDTH)}
        else:
            block |= {"attn_q.weight": (8, WIDTH), "attn_k.weight": (key, WIDTH),
                      "attn_v.weight": (key, WIDTH), "attn_q.bias": (8,)}
        if experts:
            block |= {"ffn_gate_inp.weight": (experts, WIDTH),
                      **{f"ffn_{name}_exps.weight": (experts, 2, WIDTH) for name in ("gate", "up")},
                      "ffn_down_exps.weight": (experts, 2, down)}
        else:
            block |= {"ffn_gate.weight": (4, WIDTH), "ffn_up.weight": (4, WIDTH),
                      "ffn_down.weight": (4, down)}
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def write(model, path):
    """Writes F32 tensors of normal values."""
    arch, layers, heads, shared, _, experts, _ = MODELS[model]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(layers)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(256)
    writer.add_head_count(heads)
    writer.add_head_count_kv(shared)
    writer.add_layer_norm_rms_eps(1e-5)
    if arch == "phi3":
        writer.add_rope_dimension_count(WIDTH // heads)
        writer.add_rope_scaling_orig_ctx_len(64)
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(2)
        writer.add_expert_feed_forward_length(256)
    writer.add_vocab_size(8)
    random = np.random.default_rng(5)
    for name, shape in tensors(model).items():
        writer.add_tensor(name, random.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def types(path):
    """Kind of tensor -> its types through the layers, as "Q6_K 2, Q4_K 3"."""
    kinds = {}
    for tensor in gguf.GGUFReader(path).tensors:
        match = re.fullmatch(r"blk\.(\d+)\.(.*)", tensor.name)
        layer, kind = (int(match[1]), f"blk.{match[2]}") if match else (0, tensor.name)
        kinds.setdefault(kind, {})[layer] = tensor.tensor_type.name
    runs = {kind: [(name, len(list(run))) for name, run in itertools.groupby(
        names[layer] for layer in sorted(names))] for kind, names in kinds.items()}
    return {kind: ", ".join(f"{name} {count}" for name, count in each)
            for kind, each in runs.items() if each != [("F32", len(kinds[kind]))]}


def llama_cpps_types(model):
    """Mix -> types."""
    with tempfile.TemporaryDirectory() as folder:
        source = write(model, pathlib.Path(folder) / "source.gguf")
        target = pathlib.Path(folder) / "target.gguf"
        made = {}
        for ours, theirs in MIXES.items():
            llama_quantizer.quantize(source, target, gguf.LlamaFileType[theirs])
            made[ours] = types(target)
        return made


if __name__ == "__main__":
    made = [f'"{model}": {{\n' + ",\n".join(
        f' "{mix}": {json.dumps(kinds)}' for mix, kinds in llama_cpps_types(model).items()) + "}"
        for model in MODELS]
    KEPT.write_text("{" + ",\n".join(made) + "}\n")
