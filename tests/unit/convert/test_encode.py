"""Encoders beside the PyPI package gguf and llama.cpp's quantizer.

The types with one encoding for all programs are equal byte for byte. For the others, whose scales a
program searches for, PEER holds llama.cpp's root mean square errors on the same values; ours are
not larger. `ops/test --long` measures PEER anew.
"""
import os
import pathlib
import subprocess

import gguf
import llama_quantizer
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROBE = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")) / "bin/encode_probe"
SAME = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
# Relative to the values' own root mean square: normal values, values with a heavy tail.
PEER = {"Q2_K": [0.297047, 0.341863], "Q3_K": [0.150832, 0.182053], "Q4_K": [0.0715003, 0.0857581],
        "Q5_K": [0.0362655, 0.0434078], "Q6_K": [0.0180939, 0.0224858],
        "IQ4_NL": [0.0761934, 0.0917611], "IQ4_XS": [0.0770342, 0.0926511],
        "MXFP4": [0.115498, 0.129472]}


def values(tail):
    """1024 rows of 256, whose rows differ in size."""
    random = np.random.default_rng(20)
    shape = (1024, 256)
    drawn = random.standard_t(4, shape) if tail else random.standard_normal(shape)
    return (drawn * 10.0 ** random.uniform(-3, 0, (shape[0], 1))).astype(np.float32)


def ours(name, x):
    done = subprocess.run([PROBE, str(int(gguf.GGMLQuantizationType[name]))], input=x.tobytes(),
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return np.frombuffer(done.stdout, np.uint8)


def decoded(name, blocks, shape):
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    return gguf.quants.dequantize(blocks.reshape(-1, size), kind).reshape(shape)


def error(name, blocks, x):
    """Of each row relative to its size, so that small rows count as large ones do."""
    size = np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True))
    off = (decoded(name, blocks, x.shape).astype(np.float64) - x) / size
    return float(np.sqrt((off ** 2).mean()))


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_bytes_are_those_of_the_package(name, tail):
    x = values(tail)
    x[3] = 0
    x[4, 5:] = 0
    wanted = x.astype(np.float16).view(np.uint8) if name == "F16" else \
        gguf.quants.quantize(x, gguf.GGMLQuantizationType[name])
    assert np.array_equal(ours(name, x), wanted.reshape(-1))


@pytest.mark.parametrize("name", PEER)
def test_searched_scales_are_as_close_as_llama_cpps(name):
    for tail, peer in enumerate(PEER[name]):
        x = values(tail)
        assert error(name, ours(name, x), x) <= peer


@pytest.mark.long
@pytest.mark.parametrize("name", PEER)
def test_llama_cpps_errors_are_those_noted(name):
    kind = gguf.GGMLQuantizationType[name]
    measured = [error(name, llama_quantizer.blocks(values(t), kind), values(t)) for t in (0, 1)]
    assert measured == pytest.approx(PEER[name], rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("name", SAME)
def test_bytes_are_those_of_llama_cpp(name):
    x = values(True)
    wanted = llama_quantizer.blocks(x, gguf.GGMLQuantizationType[name])
    assert np.array_equal(ours(name, x), wanted)


def test_a_type_without_an_encoder_is_named():
    for name in ("IQ3_S", "NVFP4", "Q8_1"):
        kind = gguf.GGMLQuantizationType[name]
        done = subprocess.run([PROBE, str(int(kind))], input=b"", capture_output=True, check=False)
        assert (done.returncode, done.stderr.decode()) == (3, f"{name} has no encoder\n")
