"""Dequantization against the PyPI package gguf on random blocks, bit for bit."""
import os
import pathlib
import subprocess

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROBE = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")) / "bin/dequantize_probe"
# Byte offsets of a block's halves, which the test keeps finite. The types without halves have other
# scales, whose bytes may be any: MXFP4's largest give infinities.
HALVES = {"Q8_0": [0], "Q6_K": [208], "Q5_0": [0], "Q5_1": [0, 2], "Q5_K": [0, 2], "Q4_0": [0],
          "Q4_1": [0, 2], "Q4_K": [0, 2], "Q3_K": [108], "Q2_K": [80, 82], "IQ4_NL": [0],
          "IQ4_XS": [0], "IQ3_S": [0], "IQ3_XXS": [0], "IQ2_S": [0], "IQ2_XS": [0], "IQ2_XXS": [0],
          "MXFP4": [], "NVFP4": []}
BLOCKS = 3000


def random_blocks(name):
    kind = gguf.GGMLQuantizationType[name]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = np.random.default_rng(int(kind)).integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in HALVES[name]:
        half = blocks[:, at:at + 2].copy().view(np.uint16)
        half[(half & 0x7c00) == 0x7c00] &= 0xbfff
        blocks[:, at:at + 2] = half.view(np.uint8)
    return kind, blocks


def ours(number, raw):
    return subprocess.run([PROBE, str(number)], input=raw, capture_output=True)


@pytest.mark.parametrize("name", HALVES)
def test_random_blocks(name):
    kind, blocks = random_blocks(name)
    with np.errstate(over="ignore"):
        wanted = dequantize(blocks, kind)
    assert np.isfinite(wanted).all() or name == "MXFP4"
    done = ours(int(kind), blocks.tobytes())
    assert done.returncode == 0, done.stderr
    got = np.frombuffer(done.stdout, np.uint32).reshape(wanted.shape)
    different = np.argwhere(got != wanted.view(np.uint32))
    assert not len(different), f"block, element: {different[:5].tolist()}"


@pytest.mark.parametrize("name", ["Q8_1", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0"])
def test_what_is_not_supported_is_named(name):
    done = ours(int(gguf.GGMLQuantizationType[name]), b"")
    assert done.returncode == 3
    assert done.stderr.decode() == f"{name} is not supported\n"
