"""Quantized folders: the numbers that the engine reads are those that numpy computes from the
parts, exactly where a type of ours can hold them, and else rounded once."""
import numpy as np
import pytest

from folders import MODELS, probe, quantized

NAME = "model.layers.0.mlp.down_proj"
ROWS, COLUMNS = 64, 128  # of that matrix
OURS = "blk.0.ffn_down.weight"
PLAIN = [f"{NAME}.weight"]
RANDOM = np.random.default_rng(5)


def bfloat16(values):
    """Rounds to the nearest, to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def as_bfloat16(values):
    return "BF16", (bfloat16(values).view(np.uint32) >> 16).astype("<u2")


def e4m3(codes):
    codes = codes.astype(int)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, fraction * 2.0 ** -9, (8 + fraction) * 2.0 ** (exponent - 10))
    return np.where(codes & 0x80, -size, size)


def fp8_codes():
    codes = RANDOM.integers(0, 256, (ROWS, COLUMNS)).astype("u1")
    return np.where(codes & 0x7F == 0x7F, 0, codes).astype("u1")


def read(folder, tmp_path):
    return probe(folder, tmp_path)[1][OURS]


@pytest.mark.parametrize("scales", ["blocks", "rows", "whole", "bf16 blocks"])
def test_fp8(scales, tmp_path):
    codes = fp8_codes()
    shape = {"rows": (ROWS, 1), "whole": ()}.get(scales, (1, 1))
    factors = RANDOM.uniform(1e-3, 2e-2, shape).astype("<f4")
    stored = as_bfloat16(factors) if scales == "bf16 blocks" else ("F32", factors)
    factors = bfloat16(factors) if scales == "bf16 blocks" else factors
    ending = "_scale_inv" if "blocks" in scales else "_scale"
    method = {"quant_method": "fp8", "weight_block_size": [128, 128]} if "blocks" in scales else {
        "quant_method": "compressed-tensors", "format": "float-quantized"}
    folder = quantized(tmp_path, {f"{NAME}.weight": ("F8_E4M3", codes),
                                  f"{NAME}.weight{ending}": stored}, method, drop=PLAIN)
    kind, values = read(folder, tmp_path)
    assert kind == "BF16"
    exact = e4m3(codes).astype(np.float32) * factors
    assert np.array_equal(values, bfloat16(exact))
    assert np.all(np.abs(values - exact) <= np.abs(exact) * 2.0 ** -8)


def test_fp8_has_a_scale_for_each_block_of_a_large_matrix(tmp_path):
    """The embedding has 320 rows: three blocks, the last one smaller."""
    codes = RANDOM.integers(0, 0x7F, (320, 64)).astype("u1")
    factors = np.array([[0.5], [0.013], [0.002]], "<f4")
    name = "model.embed_tokens.weight"
    folder = quantized(tmp_path, {name: ("F8_E4M3", codes), f"{name}_scale_inv": factors},
                       {"quant_method": "fp8", "weight_block_size": [128, 128]}, drop=[name])
    kind, values = probe(folder, tmp_path)[1]["token_embd.weight"]
    exact = e4m3(codes).astype(np.float32) * np.repeat(factors, 128, 0)[:320]
    assert kind == "BF16" and np.array_equal(values, bfloat16(exact))


def packed(codes, bits, axis, order=range(8)):
    """Words of 32 bits along an axis; code `order[i]` of eight stands at place i."""
    count = 32 // bits
    order = list(order)[:count]
    codes = np.moveaxis(codes, axis, -1).astype(np.uint64)
    groups = codes.reshape(*codes.shape[:-1], -1, count)
    words = sum(groups[..., order[i]] << np.uint64(bits * i) for i in range(count))
    return "I32", np.ascontiguousarray(np.moveaxis(words.astype("<u4").view("<i4"), -1, axis))


def integers(bits, group, symmetric, half=True):
    """Codes [rows, columns], scales and zero points [rows, groups], and what they give."""
    groups = COLUMNS // group
    codes = RANDOM.integers(0, 1 << bits, (ROWS, COLUMNS))
    scales = RANDOM.uniform(1e-3, 2e-2, (ROWS, groups)).astype("<f4")
    scales = scales.astype("<f2").astype("<f4") if half else bfloat16(scales)
    zeros = np.full((ROWS, groups), 1 << (bits - 1)) if symmetric else RANDOM.integers(
        1, 1 << bits, (ROWS, groups))
    return codes, scales, zeros


def given(codes, scales, zeros, group_of):
    return ((codes - zeros[:, group_of]) * scales[:, group_of]).astype(np.float32)


def expect(kind, values, exact, types):
    assert kind in types
    if kind == "F16":
        assert np.array_equal(values, exact.astype("<f2").astype("<f4"))
    else:
        assert np.array_equal(values, exact)


AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@pytest.mark.parametrize("symmetric", [True, False])
def test_awq(symmetric, tmp_path):
    group = 64
    codes, scales, zeros = integers(4, group, symmetric)
    parts = {f"{NAME}.qweight": packed(codes.T, 4, 1, AWQ_ORDER),
             f"{NAME}.qzeros": packed(zeros.T, 4, 1, AWQ_ORDER),
             f"{NAME}.scales": ("F16", scales.T.astype("<f2"))}
    folder = quantized(tmp_path, parts, {"quant_method": "awq", "bits": 4, "group_size": group,
                                         "zero_point": True, "version": "gemm"}, drop=PLAIN)
    kind, values = read(folder, tmp_path)
    expect(kind, values, given(codes, scales, zeros, np.arange(COLUMNS) // group),
           ["Q4_0" if symmetric else "F16"])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("form", ["symmetric", "zero points", "in another order", "version 2"])
def test_gptq(bits, form, tmp_path):
    group = 32
    codes, scales, zeros = integers(bits, group, form != "zero points")
    order = np.arange(COLUMNS) // group
    if form == "in another order":
        order = RANDOM.permutation(order)
    added = 0 if form == "version 2" else 1
    parts = {f"{NAME}.qweight": packed(codes.T, bits, 0),
             f"{NAME}.qzeros": packed(zeros.T - added, bits, 1),
             f"{NAME}.scales": ("F16", scales.T.astype("<f2")),
             f"{NAME}.g_idx": ("I32", order.astype("<i4"))}
    method = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False}
    if form == "version 2":
        method["checkpoint_format"] = "gptq_v2"
    kind, values = read(quantized(tmp_path, parts, method, drop=PLAIN), tmp_path)
    exact_type = "Q4_0" if bits == 4 else "Q8_0"
    expect(kind, values, given(codes, scales, zeros, order),
           [exact_type if form in ("symmetric", "version 2") else "F16"])


@pytest.mark.parametrize("form", ["symmetric", "zero points", "floats", "in another order"])
def test_compressed_tensors(form, tmp_path):
    group = 32
    codes, scales, zeros = integers(4, group, form != "zero points", half=False)
    stored = as_bfloat16(scales)
    if form == "floats":
        scales = RANDOM.uniform(1e-3, 2e-2, scales.shape).astype("<f4")
        stored = "F32", scales
    parts = {f"{NAME}.weight_packed": packed(codes, 4, 1), f"{NAME}.weight_scale": stored,
             f"{NAME}.weight_shape": ("I64", np.array([ROWS, COLUMNS], "<i8"))}
    order = np.arange(COLUMNS) // group
    if form == "zero points":
        parts[f"{NAME}.weight_zero_point"] = packed(zeros, 4, 0)
    if form == "in another order":
        order = RANDOM.permutation(order)
        parts[f"{NAME}.weight_g_idx"] = "I32", order.astype("<i4")
    method = {"quant_method": "compressed-tensors", "format": "pack-quantized",
              "config_groups": {"group_0": {"weights": {
                  "num_bits": 4, "group_size": group, "strategy": "group", "type": "int"}}}}
    kind, values = read(quantized(tmp_path, parts, method, drop=PLAIN), tmp_path)
    expect(kind, values, given(codes, scales, zeros, order),
           ["Q4_0" if form == "symmetric" else "F16"])


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def test_mxfp4(tmp_path):
    """gpt-oss: gate and up are interleaved; neighbours share a byte."""
    experts, inner, width = 8, 64, 64
    prefix = "model.layers.1.mlp.experts."
    parts, wanted = {}, {}
    for name, rows, columns in (("gate_up_proj", 2 * inner, width), ("down_proj", width, inner)):
        codes = RANDOM.integers(0, 16, (experts, rows, columns))
        scales = RANDOM.integers(110, 130, (experts, rows, columns // 32)).astype("u1")
        blocks = (codes[..., ::2] | codes[..., 1::2] << 4).astype("u1")
        parts[f"{prefix}{name}_blocks"] = "U8", blocks.reshape(experts, rows, -1, 16)
        parts[f"{prefix}{name}_scales"] = "U8", scales
        wanted[name] = E2M1[codes] * np.repeat(2.0 ** (scales.astype(float) - 127), 32, -1)
    folder = quantized(tmp_path, parts, {"quant_method": "mxfp4"}, "gpt-oss",
                       [f"{prefix}{name}" for name in ("gate_up_proj", "down_proj")])
    tensors = probe(folder, tmp_path)[1]
    for name, values in (("gate", wanted["gate_up_proj"][:, ::2]),
                         ("up", wanted["gate_up_proj"][:, 1::2]), ("down", wanted["down_proj"])):
        kind, read_values = tensors[f"blk.1.ffn_{name}_exps.weight"]
        assert kind == "MXFP4" and np.array_equal(read_values, values)


def test_plain_types_are_used_where_they_lie(tmp_path):
    """Rows of queries are reordered, so they are made; a norm becomes F32."""
    from folders import checkpoint
    tensors = {name: as_bfloat16(values)
               for name, values in checkpoint.saved(MODELS["llama"]).items()}
    folder = quantized(tmp_path, tensors, None)
    said, read_tensors = probe(folder, tmp_path)
    in_place = {each["name"]: each["in_place"] for each in said["tensors"]}
    assert in_place["blk.0.ffn_down.weight"] and in_place["token_embd.weight"]
    assert not in_place["blk.0.attn_q.weight"] and not in_place["blk.0.attn_norm.weight"]
    assert read_tensors["blk.0.ffn_down.weight"][0] == "BF16"
    assert read_tensors["blk.0.attn_norm.weight"][0] == "F32"
    assert np.array_equal(read_tensors[OURS][1], bfloat16(checkpoint.saved(MODELS["llama"])[
        f"{NAME}.weight"]))


# ---- Matrices that a class's tensors are made of by other orders or by factors.

BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def fp8_of(name, shape, scales=(1, 1)):
    """Parts of a matrix in fp8, and what they give."""
    codes = RANDOM.integers(0, 0x7F, shape).astype("u1")
    factors = RANDOM.uniform(1e-3, 2e-2, scales).astype("<f4")
    exact = e4m3(codes).astype(np.float32) * factors
    return {name: ("F8_E4M3", codes), f"{name}_scale_inv": factors}, bfloat16(exact)


def test_latents_in_fp8_are_split_by_head(tmp_path):
    """As DeepSeek's folders have them: rows of keys are transposed, those of values are not."""
    heads, plain, value, rank = 4, 16, 48, 32
    name = "model.layers.1.self_attn.kv_b_proj.weight"
    codes = RANDOM.integers(0, 0x7F, (heads * (plain + value), rank)).astype("u1")
    factors = np.array([[0.5], [0.013]], "<f4")  # of 128 rows each
    parts = {name: ("F8_E4M3", codes), f"{name}_scale_inv": factors}
    given_values = bfloat16(e4m3(codes).astype(np.float32) * np.repeat(factors, 128, 0))
    tensors = probe(quantized(tmp_path, parts, BLOCKS, "deepseek2"), tmp_path)[1]
    by_head = given_values.reshape(heads, plain + value, rank)
    for short, wanted in (("k", by_head[:, :plain].swapaxes(1, 2)), ("v", by_head[:, plain:])):
        kind, values = tensors[f"blk.1.attn_{short}_b.weight"]
        assert kind == "BF16" and np.array_equal(values, wanted), short


@pytest.mark.parametrize("scales", [(8, 1, 1), (8, 64, 1), ()])
def test_experts_in_fp8_may_be_one_tensor(scales, tmp_path):
    name = "model.layers.1.mlp.experts.down_proj"
    parts, wanted = fp8_of(name, (8, 64, 64), scales)
    kind, values = probe(quantized(tmp_path, parts, BLOCKS, "mistral4"),
                         tmp_path)[1]["blk.1.ffn_down_exps.weight"]
    assert kind == "BF16" and np.array_equal(values, wanted)


def test_experts_in_fp8_have_blocks_of_their_own(tmp_path):
    """A matrix of gates and ups has 128 rows here, one block, and 64 columns."""
    name = "model.layers.1.mlp.experts.gate_up_proj"
    parts, wanted = fp8_of(name, (8, 128, 64), (8, 1, 1))
    kind, values = probe(quantized(tmp_path, parts, BLOCKS, "mistral4"),
                         tmp_path)[1]["blk.1.ffn_gate_up_exps.weight"]
    assert kind == "BF16" and np.array_equal(values, wanted)


def test_value_heads_of_quantized_matrices_are_reordered(tmp_path):
    """Rows move whole, and columns by runs of a head's channels, which are whole blocks."""
    name, group = "model.layers.0.linear_attn.out_proj", 32
    rows, columns = 64, 256
    codes = RANDOM.integers(0, 16, (rows, columns))
    scales = RANDOM.uniform(1e-3, 2e-2, (rows, columns // group)).astype("<f2").astype("<f4")
    parts = {f"{name}.weight_packed": packed(codes, 4, 1), f"{name}.weight_scale": scales,
             f"{name}.weight_shape": ("I64", np.array([rows, columns], "<i8"))}
    method = {"quant_method": "compressed-tensors", "format": "pack-quantized",
              "config_groups": {"group_0": {"weights": {
                  "num_bits": 4, "group_size": group, "strategy": "group", "type": "int"}}}}
    folder = quantized(tmp_path, parts, method, "qwen35", [f"{name}.weight"])
    kind, values = probe(folder, tmp_path)[1]["blk.0.ssm_out.weight"]
    exact = (codes - 8) * np.repeat(scales, group, 1)
    # Two key heads of four value heads each, which then take turns.
    wanted = exact.reshape(rows, 2, 4, 32).swapaxes(1, 2).reshape(rows, columns)
    assert kind == "Q4_0" and np.array_equal(values, wanted)
