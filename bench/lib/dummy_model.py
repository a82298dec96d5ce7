"""Models of well-known shapes in their full size with random weights, written in seconds.

A matrix repeats a piece of random blocks, whose length is no multiple of a row's, so that rows
differ; all its numbers are small and finite. Routers are random in all rows, so that experts are
chosen about evenly. Needs numpy and gguf, no other part of this repository.
"""
import concurrent.futures
import dataclasses
import math
import os

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
PIECE_BLOCKS = 999_983  # a prime number
BATCH_BYTES = 64 << 20  # that a thread writes at once


@dataclasses.dataclass(frozen=True)
class Shape:
    arch: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    used: int
    ffn: int  # of an expert
    vocabulary: int
    context: int
    rope_base: float
    expert_type: Type
    matrix_type: Type
    keys: dict = dataclasses.field(default_factory=dict)
    biases: bool = False  # of attention, the router and the experts
    sinks: bool = False
    head_norms: bool = False
    ffn_norm: str = "ffn_norm"


SHAPES = {
    "gpt-oss-20b": Shape(
        "gpt-oss", layers=24, width=2880, heads=64, kv_heads=8, head_dim=64, experts=32, used=4,
        ffn=2880, vocabulary=201088, context=131072, rope_base=150000.0, expert_type=Type.MXFP4,
        matrix_type=Type.Q8_0, biases=True, sinks=True, ffn_norm="post_attention_norm",
        keys={"attention.sliding_window": 128, "rope.scaling.type": "yarn",
              "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096}),
    "qwen3-30b-a3b": Shape(
        "qwen3moe", layers=48, width=2048, heads=32, kv_heads=4, head_dim=128, experts=128, used=8,
        ffn=768, vocabulary=151936, context=40960, rope_base=1e6, expert_type=Type.Q4_K,
        matrix_type=Type.Q4_K, head_norms=True),
}


def tensors_of(shape):
    """Name, shape in numpy's order of axes, and type of every tensor."""
    f32, of, wide = Type.F32, shape.matrix_type, shape.width
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "token_embd.weight", (shape.vocabulary, wide), of
    yield "output_norm.weight", (wide,), f32
    yield "output.weight", (shape.vocabulary, wide), of
    for layer in range(shape.layers):
        def name(part, layer=layer):
            return f"blk.{layer}.{part}"
        yield name("attn_norm.weight"), (wide,), f32
        yield name(shape.ffn_norm + ".weight"), (wide,), f32
        for part, rows, columns in (("attn_q", queries, wide), ("attn_k", keys, wide),
                                    ("attn_v", keys, wide), ("attn_output", wide, queries)):
            yield name(part + ".weight"), (rows, columns), of
            if shape.biases:
                yield name(part + ".bias"), (rows,), f32
        if shape.sinks:
            yield name("attn_sinks.weight"), (shape.heads,), f32
        if shape.head_norms:
            yield name("attn_q_norm.weight"), (shape.head_dim,), f32
            yield name("attn_k_norm.weight"), (shape.head_dim,), f32
        yield name("ffn_gate_inp.weight"), (shape.experts, wide), f32
        if shape.biases:
            yield name("ffn_gate_inp.bias"), (shape.experts,), f32
        for part, rows, columns in (("ffn_gate_exps", shape.ffn, wide),
                                    ("ffn_up_exps", shape.ffn, wide),
                                    ("ffn_down_exps", wide, shape.ffn)):
            yield name(part + ".weight"), (shape.experts, rows, columns), shape.expert_type
            if shape.biases:
                yield name(part + ".bias"), (shape.experts, rows), f32


def half(value):
    return np.array([value], "<f2").view(np.uint8)


def random_blocks(kind):
    """The bytes of random blocks, whose weights have a deviation of about 0.02."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    out = np.random.default_rng(1).integers(0, 256, (PIECE_BLOCKS, size), np.uint8)
    if kind == Type.Q8_0:
        out[:, 0:2] = half(0.02 / 74)
    elif kind == Type.MXFP4:
        out[:, 0] = 121  # 2^-6 times levels of up to 6, so 0.05; halved by the table of levels
    elif kind == Type.Q4_K:
        out[:, 0:2], out[:, 2:4] = half(0.02 / 4.6 / 48), half(0.02 / 4.6 / 48 * 7.5)
        out[:, 4:8] |= 0xA0
        out[:, 8:12] = out[:, 4:8]
        out[:, 12:16] = (out[:, 12:16] & 0xF) * 17
    else:
        raise ValueError(f"there are no random blocks of {kind.name}")
    return out.reshape(-1)


def floats(name, shape):
    """Norms are 1, biases and sinks small, routers as large as other matrices."""
    if "norm" in name:
        return np.ones(shape, np.float32)
    spread = 0.05 if "ffn_gate_inp.weight" in name else 0.01
    random = np.random.default_rng(abs(hash(name)) % 2**32)
    return random.standard_normal(shape, np.float32) * np.float32(spread)


def tokens(count):
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]
    return alphabet + ["th"] + [f"w{i}" for i in range(count - 258)] + ["<|endoftext|>"]


def start(shape, path):
    writer = gguf.GGUFWriter(path, shape.arch)
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    keys = {"vocab_size": shape.vocabulary, "context_length": shape.context,
            "embedding_length": shape.width, "block_count": shape.layers,
            "feed_forward_length": shape.ffn, "expert_count": shape.experts,
            "expert_used_count": shape.used, "expert_feed_forward_length": shape.ffn,
            "attention.head_count": shape.heads, "attention.head_count_kv": shape.kv_heads,
            "attention.key_length": shape.head_dim, "attention.value_length": shape.head_dim,
            "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": shape.rope_base,
            "rope.dimension_count": shape.head_dim, **shape.keys}
    for key, value in keys.items():
        add[type(value)](f"{shape.arch}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-4o" if shape.arch == "gpt-oss" else "qwen2")
    writer.add_token_list(tokens(shape.vocabulary))
    writer.add_token_types([1] * (shape.vocabulary - 1) + [3])
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(shape.vocabulary - 1)
    writer.add_add_bos_token(False)
    return writer


def write(name, path, expert_type=None, matrix_type=None, layers=None):
    """Writes a shape, by default with its own types and all layers."""
    shape = SHAPES[name]
    changes = {"expert_type": expert_type, "matrix_type": matrix_type, "layers": layers}
    shape = dataclasses.replace(shape, **{k: v for k, v in changes.items() if v is not None})
    all_tensors = list(tensors_of(shape))
    writer = start(shape, path)
    for tensor, axes, kind in all_tensors:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor_info(tensor, axes, np.dtype(np.float32), math.prod(axes) // block * size,
                               raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    # The writer pads what comes before the data; from here on the places are those of its infos.
    writer.fout[0].flush()
    begin = gguf.GGUFWriter.ggml_pad(os.path.getsize(path), writer.data_alignment)
    writer.close()
    pieces = {kind: random_blocks(kind) for _, _, kind in all_tensors if kind != Type.F32}
    file = os.open(path, os.O_WRONLY)
    jobs = []
    at = begin
    for tensor, axes, kind in all_tensors:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        count = math.prod(axes) // block * size
        jobs += [(at + i, tensor, axes, kind, i, min(BATCH_BYTES, count - i))
                 for i in range(0, count, BATCH_BYTES)]
        at += gguf.GGUFWriter.ggml_pad(count, writer.data_alignment)
    os.ftruncate(file, at)

    def put(job):
        to, tensor, axes, kind, first, count = job
        if kind == Type.F32:
            values = floats(tensor, axes).reshape(-1).view(np.uint8)[first:first + count]
            os.pwrite(file, values, to)
            return
        piece = pieces[kind]
        while count > 0:
            from_byte = first % len(piece)
            part = piece[from_byte:from_byte + count]
            done = os.pwrite(file, part, to)
            first, to, count = first + done, to + done, count - done

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(put, jobs))
    os.close(file)
