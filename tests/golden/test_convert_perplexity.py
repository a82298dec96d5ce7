"""What `millrace convert` costs Gemma 3 270M, beside llama.cpp's quantizer on the same values: the
model's file in F16."""
import functools
import json
import math
import pathlib
import sys

import gguf
import llama_quantizer
import numpy as np
import pytest
from test_gemma import model

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e/client"))
from programs import millrace  # noqa: E402

pytestmark = pytest.mark.long
WORDS = 330  # of a piece of text, less than the model's window
MOST_WORSE = 1.001


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gemma")
    convert(model(), folder / "f16.gguf", "F16", "--allow-requantize")
    return folder


def convert(source, target, mix, *more):
    done = millrace("convert", source, "-o", target, "-t", mix, *more)
    assert done.returncode == 0, done.stderr


def both(folder, mix):
    """Our file of the type and llama.cpp's."""
    ours, theirs = folder / f"{mix}.gguf", folder / f"llama.cpp-{mix}.gguf"
    convert(folder / "f16.gguf", ours, mix)
    llama_quantizer.quantize(folder / "f16.gguf", theirs, gguf.LlamaFileType[f"MOSTLY_{mix}"])
    return ours, theirs


def tensors(path):
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


@functools.cache
def text():
    words = (ROOT / "LICENSE").read_text().split()
    return "".join(" ".join(words[at:at + WORDS]) + "\n"
                   for at in range(0, len(words) - WORDS // 2, WORDS))


def perplexity(path):
    done = millrace("score", "--model", path, text=text())
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return math.exp(-sum(line["sum"] for line in lines) /
                    sum(line["scored_tokens"] for line in lines))


def test_q8_0_is_llama_cpps_byte_for_byte(folder):
    ours, theirs = map(tensors, both(folder, "Q8_0"))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.tensor_type == theirs[name].tensor_type
        assert np.array_equal(tensor.data, theirs[name].data), name


@pytest.mark.parametrize("mix", ["Q4_K_M", "Q3_K_M"])
def test_k_types_are_as_close_as_llama_cpps(folder, mix):
    ours, theirs = both(folder, mix)
    before = tensors(folder / "f16.gguf")
    mine, peers = tensors(ours), tensors(theirs)
    assert {name: t.tensor_type for name, t in mine.items()} == \
        {name: t.tensor_type for name, t in peers.items()}
    for name, tensor in mine.items():
        values = gguf.quants.dequantize(before[name].data, before[name].tensor_type)
        off, peer = (np.sqrt(((gguf.quants.dequantize(t.data, t.tensor_type) - values)
                              .astype(np.float64) ** 2).mean()) for t in (tensor, peers[name]))
        assert off <= 1.01 * peer, (name, off, peer)
    assert perplexity(ours) <= MOST_WORSE * perplexity(theirs)
