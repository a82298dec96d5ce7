"""Tests bench/make_model on small models of the same families."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import gguf
import numpy as np
import pytest

from made import ROOT
from lib import limits, plans, random_model
from lib.random_model import SHAPES

BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
DENSE, EXPERTS = SHAPES["qwen3-0.6b"], SHAPES["qwen3-30b-a3b"]
SMALL = {
    "dense": dataclasses.replace(DENSE, sizes=dataclasses.replace(
        DENSE.sizes, layers=8, width=512, heads=4, kv_heads=2, head_dim=64, ffn=768,
        vocabulary=2048)),
    "experts": dataclasses.replace(
        EXPERTS, keys=EXPERTS.keys | {"expert_count": 16, "expert_used_count": 2,
                                      "expert_feed_forward_length": 256},
        sizes=dataclasses.replace(EXPERTS.sizes, width=512, heads=4, kv_heads=2, head_dim=128,
                                  experts=256, choices=16, vocabulary=2048)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("random")
    return {name: random_model.write(model, folder / name) for name, model in SMALL.items()}


def test_recurrent_layers_have_no_keys(tmp_path):
    """Two of eight layers of Qwen 3.5 attend."""
    model = SHAPES["qwen3.5-0.8b"]
    small = dataclasses.replace(model, sizes=dataclasses.replace(
        model.sizes, layers=8, width=512, ffn=768, vocabulary=2048))
    work = limits.work_of(random_model.write(small, tmp_path / "hybrid"))
    assert work.kv_values == 2 * small.sizes.kv_heads * 2 * small.sizes.head_dim


def tensors(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


# llama.cpp's list of the tensors of Qwen3-0.6B that its Q4_K_M stores in Q6_K names these layers.
MORE_BITS = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27}


def test_the_layers_with_more_bits_are_those_of_llamas_quantizer():
    assert {layer for layer in range(28) if random_model.has_more_bits(layer, 28)} == MORE_BITS
    assert {layer for layer in range(4) if random_model.has_more_bits(layer, 4)} == {2, 3}


@pytest.mark.parametrize("name, counts", [
    ("dense", {"Q6_K": 1 + 2 * 4, "Q4_K": 8 * 7 - 2 * 4, "F32": 1 + 8 * 4}),  # layers 0, 3, 6, 7
    ("experts", {"Q6_K": 1 + 2 * 2, "Q4_K": 1 + 4 * 7 - 4, "F32": 1 + 4 * 5})])
def test_a_file_has_the_types_of_q4_k_m(name, counts, files):
    found = tensors(files[name])
    types = [t.tensor_type.name for t in found.values()]
    assert {kind: types.count(kind) for kind in set(types)} == counts
    output = found["token_embd.weight" if name == "dense" else "output.weight"]
    assert output.tensor_type.name == "Q6_K"
    assert ("output.weight" in found) == (name == "experts")
    fields = gguf.GGUFReader(files[name]).fields
    assert fields["general.file_type"].contents() == gguf.LlamaFileType.MOSTLY_Q4_K_M
    assert fields["tokenizer.ggml.pre"].contents() == "qwen2"
    assert len(fields["tokenizer.ggml.tokens"].contents()) == 2048


@pytest.mark.parametrize("name", SMALL)
def test_weights_are_random_with_the_spread_that_they_should_have(name, files):
    seen = set()
    for tensor in tensors(files[name]).values():
        if tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            continue
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        wanted = 1.0 if (tensor.name, name) == ("token_embd.weight", "experts") else \
            1.3 / np.sqrt(int(tensor.shape[0]))
        assert values.std() == pytest.approx(wanted, rel=0.03), tensor.name
        assert abs(values.mean()) < 0.03 * wanted, tensor.name
        seen.add(tensor.data[..., 16:32].tobytes()[:4096])
        rows = tensor.data.reshape(-1, tensor.data.shape[-1])
        assert len(np.unique(rows, axis=0)) == len(rows), tensor.name
    assert len(seen) == len(SMALL[name].entries()) - sum(
        t.tensor_type.name == "F32" for t in tensors(files[name]).values())


def test_the_same_name_gives_the_same_bytes(files, tmp_path, monkeypatch):
    again = random_model.write(SMALL["dense"], tmp_path / "again")
    assert again.read_bytes() == files["dense"].read_bytes()
    other = dataclasses.replace(SMALL["dense"], name="other")
    assert random_model.write(other, tmp_path / "other").read_bytes() != again.read_bytes()


@pytest.mark.parametrize("name", SMALL)
def test_the_engine_runs_the_file_and_its_logits_are_neither_flat_nor_degenerate(
        name, files, tmp_path):
    ids = [int(x) for x in np.random.default_rng(1).integers(0, 2048, 24)]
    (tmp_path / "tokens.json").write_text(json.dumps(ids))
    done = subprocess.run([BUILD / "bin/families_probe", "--model", files[name], "--tokens",
                           tmp_path / "tokens.json", "--kv", "f32", "--output", tmp_path / "out"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    logits = np.fromfile(tmp_path / "out", "<f4").reshape(-1, len(ids), 2048)[0]
    assert np.isfinite(logits).all() and 0.5 < logits.std() < 5
    assert len(set(logits.argmax(1))) > len(ids) / 2  # positions differ
    assert (logits.argmax(1) != ids).any()  # and are not the token itself


def test_a_file_is_written_once_and_anew_when_the_recipe_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(random_model, "CACHE", tmp_path)
    written = []
    monkeypatch.setattr(random_model, "write",
                        lambda model, path: written.append(model.name) or path.write_text("x"))
    path = random_model.path_of("qwen3-0.6b")
    assert path == random_model.path_of("qwen3-0.6b") and path.read_text() == "x"
    assert written == ["qwen3-0.6b"]
    monkeypatch.setattr(random_model, "recipe", lambda: "another")
    assert random_model.path_of("qwen3-0.6b") == path and len(written) == 2


def test_every_random_model_has_a_name_in_compare():
    assert {name for name, command in plans.NAMED.items() if command == "bench/make_model"} == \
        set(SHAPES)


def test_an_unknown_name_is_refused():
    done = subprocess.run([sys.executable, ROOT / "bench/make_model", "qwen9"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "choose from 'qwen3-0.6b', 'qwen3-30b-a3b'" in done.stderr
