"""`millrace fidelity` and `millrace calibrate` on models with recurrent layers.

Contexts take turns in one place of states, so each must begin without what another one left there.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from models import MODELS  # noqa: E402
import weights  # noqa: E402
import write_gguf  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", HERE.parents[1] / "build"))
SIZE, CONTEXTS = 64, 3
# The layers that attend, of all, and the KV heads and channels of each.
ATTENDING = {"qwen35": ((3, 7), 8, 2, 64), "lfm2": ((2, 4), 6, 2, 32)}


def call(*words):
    return subprocess.run([BUILD / "bin/millrace", *map(str, words)], text=True,
                          capture_output=True)


def rows(*words):
    done = call(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module", params=ATTENDING)
def model(request, tmp_path_factory):
    """A model's name, its file, and a folder."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, write_gguf.write(MODELS[request.param], folder / "m.gguf"), folder


def write_tokens(path, tokens):
    path.write_text(json.dumps({"context": SIZE, "tokens": tokens}))
    return path


def test_fidelity_measures_each_context_by_itself(model):
    name, path, folder = model
    tokens = weights.tokens(f"{name} contexts", CONTEXTS * SIZE)
    all_of_them = write_tokens(folder / "all.json", tokens)

    def measure(given):
        subprocess.run([BUILD / "bin/engine_logits", "--model", path, "--contexts", given,
                        "--math", "exact", "--kv", "f32", "--output", folder / "truth.f32"],
                       check=True, capture_output=True)
        (row,) = rows("fidelity", "--model", path, "--tokens", given, "--kv", "f16", "--math",
                      "exact", "--reference", folder / "truth.f32", "--step-tokens", 50)
        return row

    row = measure(all_of_them)
    assert (row["contexts"], row["positions"]) == (CONTEXTS, CONTEXTS * (SIZE // 2 - 1))
    assert row["layers"] == f"f16/f16 x{len(ATTENDING[name][0])}"
    klds = [measure(write_tokens(folder / "one.json", tokens[at:at + SIZE]))
            ["against_reference"]["mean_kld"] for at in range(0, len(tokens), SIZE)]
    assert all(0 < kld < 1e-4 for kld in klds), klds
    assert row["against_reference"]["mean_kld"] == pytest.approx(np.mean(klds), rel=1e-6)


def mean_keys(path, model, text):
    """The layers' heads and channels, and the means."""
    path.with_suffix(".txt").write_text(text)
    (said,) = rows("calibrate", "--model", model, "--text", path.with_suffix(".txt"), "--context",
                   SIZE, "-o", path)
    raw = path.read_bytes()
    magic, version, layers = struct.unpack("<8s2I", raw[:16])
    assert (magic, version) == (b"MKEYMEAN", 2)
    begin = 16 + 8 * layers
    (tokens,) = struct.unpack("<Q", raw[begin:begin + 8])
    assert tokens == said["tokens"] == len(text) - len(text) // SIZE
    heads = np.frombuffer(raw[16:begin], "<u4").reshape(layers, 2).tolist()
    return heads, np.frombuffer(raw[begin + 24:-16], "<f4"), said


def test_mean_keys_are_those_of_the_layers_that_attend(model):
    name, path, folder = model
    places, layers, kv_heads, channels = ATTENDING[name]
    random = np.random.default_rng(3)
    first, second = ("".join(random.choice(list("abcdefg. \n"), SIZE)) for _ in range(2))
    heads, means, said = mean_keys(folder / "m.keys", path, first + second)
    assert heads == [[kv_heads, channels] if i in places else [0, 0] for i in range(layers)]
    assert means.size == len(places) * kv_heads * channels and np.abs(means).max() > .01
    # A context's keys do not depend on the context before it.
    _, turned, _ = mean_keys(folder / "turned.keys", path, second + first)
    assert np.abs(means - turned).max() < 1e-6
    _, alone, _ = mean_keys(folder / "alone.keys", path, first)
    assert np.abs(means - alone).max() > 1e-3
    given = write_tokens(folder / "centered.json", weights.tokens(f"{name} centered", SIZE))
    (row,) = rows("fidelity", "--model", path, "--tokens", given, "--kv", "f16", "--kv-center",
                  folder / "m.keys")
    assert row["keys_centered_by"] == said["digest"]
    assert 0 < row["against_f16"]["max_kld"] < 1e-4


def test_a_model_without_keys_has_nothing_to_center(tmp_path):
    path = write_gguf.write(MODELS["mamba2"], tmp_path / "m.gguf")
    (tmp_path / "text").write_text("abc " * SIZE)
    done = call("calibrate", "--model", path, "--text", tmp_path / "text", "-o", tmp_path / "keys")
    assert done.returncode == 3 and not (tmp_path / "keys").exists()
    assert "unsupported_field" in done.stderr and "no layer of the model stores keys" in done.stderr
    assert "needs no file of mean keys" in done.stderr
    given = write_tokens(tmp_path / "tokens.json", weights.tokens("without keys", SIZE))
    (row,) = rows("fidelity", "--model", path, "--tokens", given, "--kv", "f16")
    assert (row["bytes_per_token"], row["compression"], row["layers"]) == (0, 1, "f16/f16")
