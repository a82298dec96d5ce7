"""Runs `millrace fidelity` as a user does, on a tiny model, and compares it with float64 NumPy."""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from patience import PATIENCE_S

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "client"), str(HERE.parent / "bad_input"),
                str(HERE.parents[2] / "bench/fidelity")]
import fidelity as truth  # noqa: E402
from programs import program  # noqa: E402
from tiny_gguf import KV_HEADS, WIDTH, HEADS, tiny_gguf  # noqa: E402

SIZE = 64


def call(name, *words):
    return subprocess.run([program(name), *map(str, words)], text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a model, a text, ids cut into three contexts, and the exact mode's logits."""
    folder = tmp_path_factory.mktemp("fidelity")
    (folder / "m.gguf").write_bytes(tiny_gguf())
    shuffle = random.Random(5)
    text = "".join(shuffle.choice("abcdefghij .\n") for _ in range(500))
    (folder / "text").write_text(text)
    ids = [shuffle.randrange(257) for _ in range(3 * SIZE + 9)]
    (folder / "ids.json").write_text(json.dumps({"context": SIZE, "tokens": ids}))
    done = call("engine_logits", "--model", folder / "m.gguf", "--contexts", folder / "ids.json",
                "--math", "exact", "--output", folder / "exact.f32")
    assert done.returncode == 0, done.stderr
    exact = truth.read_logits(folder / "exact.f32")
    noise = np.random.default_rng(4).normal(0, .1, exact.shape)
    write_logits(folder / "noisy.f32", exact + noise)
    return folder


def write_logits(path, rows):
    path.write_bytes(b"MLOGITS1" + np.array(rows.shape, "<i4").tobytes()
                     + rows.astype("<f4").tobytes())


def measure(tiny, *words, ids=True):
    source = ("--tokens", tiny / "ids.json") if ids else ("--text", tiny / "text")
    return call("millrace", "fidelity", "--model", tiny / "m.gguf", *source, *words)


def rows(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_figures_are_those_of_numpy(tiny):
    done = measure(tiny, "--kv", "f16", "--math", "exact", "--reference", tiny / "noisy.f32",
                   "--json", "--step-tokens", 50)
    (row,) = rows(done)
    wanted = truth.compare(truth.read_logits(tiny / "noisy.f32"),
                           truth.read_logits(tiny / "exact.f32"), truth.targets(tiny / "ids.json"))
    assert row["positions"] == wanted["positions"] == 3 * (SIZE // 2 - 1)
    assert wanted["mean_kld"] > 1e-3 and wanted["top1"] < 1
    got = row["against_reference"]
    assert row["positions"] == wanted["positions"] == 3 * (SIZE // 2 - 1)
    assert wanted["mean_kld"] > 1e-7, "the modes differ, or there is nothing to compare"
    for ours, numpys in (("mean_kld", "mean_kld"), ("p99_kld", "p99_kld"), ("top1", "top1"),
                         ("perplexity", "perplexity"),
                         ("truth_perplexity", "reference_perplexity")):
        assert got[ours] == pytest.approx(wanted[numpys], rel=1e-4), ours
    assert row["against_f16"]["max_kld"] == 0 and row["against_f16"]["top1"] == 1
    assert row["bytes_per_token"] == 2 * 2 * KV_HEADS * WIDTH // HEADS and row["compression"] == 1


def test_a_reference_of_all_positions_of_one_context(tiny):
    """Reads a reference with a row for every token, as the float64 reference writes it."""
    one = tiny / "one.json"
    ids = json.loads((tiny / "ids.json").read_text())["tokens"][:SIZE]
    one.write_text(json.dumps({"tokens": ids}))
    scored = truth.read_logits(tiny / "exact.f32")[:SIZE // 2 - 1]
    whole = np.zeros((SIZE, scored.shape[1]), np.float32)
    whole[SIZE // 2:SIZE - 1] = scored
    write_logits(tiny / "whole.f32", whole)
    done = call("millrace", "fidelity", "--model", tiny / "m.gguf", "--tokens", one, "--kv", "f16",
                "--math", "exact", "--reference", tiny / "whole.f32", "--json")
    (row,) = rows(done)
    assert row["context_tokens"] == SIZE and row["positions"] == SIZE // 2 - 1
    assert row["against_reference"]["max_kld"] == 0


def test_tables_and_plots(tiny):
    png = tiny / "plot.png"
    done = measure(tiny, "--kv", "f16,f16/f16~1,0", "--reference", tiny / "noisy.f32", "--plot",
                   png)
    assert done.returncode == 0, done.stderr
    tables = done.stdout
    assert "against fp16 KV" in tables and f"against {tiny / 'noisy.f32'}" in tables
    assert len([x for x in tables.splitlines() if x.startswith("f16/f16~1,0  ")]) == 2
    assert "KV bytes per token" in tables and " o" in tables
    assert tables.endswith(f"Plot: {png}\n")
    assert "f16 (1 of 2)" in done.stderr
    pixels = decode_png(png.read_bytes())
    colours = {tuple(x) for x in pixels.reshape(-1, 3)}
    assert (31, 97, 165) in colours, "no point is drawn"
    assert (pixels < 100).all(axis=2).sum() > 1000, "no letters are drawn"


def decode_png(raw):
    """Returns the RGB rows of a PNG without interlacing."""
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, shape = 8, b"", None
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        body = raw[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack(">I", raw[at + 8 + size:at + 12 + size])[0]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 2)
            shape = height, width * 3
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape[0], shape[1] + 1)
    out = np.zeros(shape, np.int64)
    for y, line in enumerate(lines):
        above = out[y - 1] if y else np.zeros(shape[1], np.int64)
        for x in range(shape[1]) if line[0] not in (0, 2) else ():
            left = out[y, x - 3] if x >= 3 else 0
            corner = above[x - 3] if x >= 3 else 0
            guess = {1: left, 3: (left + above[x]) // 2,
                     4: min((abs(above[x] - corner), 0, left), (abs(left - corner), 1, above[x]),
                            (abs(left + above[x] - 2 * corner), 2, corner))[2]}[line[0]]
            out[y, x] = (int(line[x + 1]) + guess) & 255
        if line[0] in (0, 2):
            out[y] = (line[1:] + (above if line[0] == 2 else 0)) & 255
    return out.reshape(shape[0], -1, 3)


def test_inputs_and_foreign_files_are_not_overwritten(tiny):
    (tiny / "notes").write_text("precious")
    (tiny / "link").symlink_to(tiny / "m.gguf")
    os.mkfifo(tiny / "pipe")
    kept = {name: (tiny / name).read_bytes() for name in ("m.gguf", "text", "notes")}
    for name, code in (("m.gguf", 2), ("link", 2), ("text", 2), ("notes", 3), ("pipe", 3)):
        for refused in (measure(tiny, "--kv", "f16", "--plot", tiny / name, ids=False),
                        call("millrace", "calibrate", "--model", tiny / "m.gguf", "--text",
                             tiny / "text", "-o", tiny / name)):
            assert refused.returncode == code, refused.stderr
            assert ("would overwrite" if code == 2 else "conflict") in refused.stderr
    assert kept == {name: (tiny / name).read_bytes() for name in kept}
    for _ in range(2):  # the second time, the command replaces its own files
        made = call("millrace", "calibrate", "--model", tiny / "m.gguf", "--text", tiny / "text")
        assert made.returncode == 0, made.stderr
        made = measure(tiny, "--kv", "f16", "--context", 64, "--plot", tiny / "own.png",
                       ids=False)
        assert made.returncode == 0, made.stderr


def test_a_text_is_cut_into_contexts(tiny):
    (row,) = rows(measure(tiny, "--context", 100, "--contexts", 2, "--kv", "f16", "--score",
                          "all", "--json", ids=False))
    assert (row["contexts"], row["context_tokens"], row["positions"]) == (2, 100, 198)
    assert row["model"] == "m" and row["layers"] == "f16/f16 x1"


def calibrate(tiny, *words):
    return call("millrace", "calibrate", "--model", tiny / "m.gguf", *words)


def test_mean_keys_of_a_text_center_those_of_a_policy(tiny):
    done = calibrate(tiny, "--text", tiny / "text", "--context", 100, "--json")
    (said,) = rows(done)
    path = tiny / "m.gguf.keys"
    assert said["file"] == str(path) and said["tokens"] == 4 * 99  # without each piece's first one
    last = json.loads(done.stderr.splitlines()[-1])
    assert last == {"event": "progress", "number": 4, "count": 4}
    layers, heads, channels = 1, KV_HEADS, WIDTH // HEADS
    raw = path.read_bytes()
    assert struct.unpack("<8s4IQ", raw[:32]) == (b"MKEYMEAN", 2, layers, heads, channels, 4 * 99)
    means = np.frombuffer(raw[48:-16], "<f4")
    assert means.size == heads * channels and np.abs(means).max() > .01
    (plain,) = rows(measure(tiny, "--kv", "f16", "--json"))
    (centered,) = rows(measure(tiny, "--kv", "f16", "--kv-center", path, "--json"))
    assert centered["layers"] == f"{plain['layers']}, keys centered by {said['digest']}"
    assert centered["fingerprint"] != plain["fingerprint"]
    assert 0 < centered["against_f16"]["max_kld"] < 1e-4
    assert centered["keys_centered_by"] == said["digest"] and "keys_centered_by" not in plain
    table = measure(tiny, "--kv", "f16", "--kv-center", path).stdout
    assert f"centered keys; digest of the mean keys: {said['digest']}\n" in table
    # The engine also accepts the file, and then has another fingerprint.
    done = subprocess.run([program("millrace"), "score", "--model", tiny / "m.gguf", "--kv-center",
                           path], input="abc\n", text=True, capture_output=True, timeout=PATIENCE_S,
                          check=True)
    assert json.loads(done.stdout)["fingerprint"] != plain["fingerprint"]
    (tiny / "damaged.keys").write_bytes(raw[:60] + b"?" + raw[61:])
    done = subprocess.run([program("millrace-engine"), "--model", tiny / "m.gguf", "--kv-center",
                           tiny / "damaged.keys"], text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 3
    assert f"--kv-center {tiny / 'damaged.keys'} is damaged" in done.stderr
    assert "millrace calibrate" in done.stderr


@pytest.mark.parametrize("words, status, said", [
    ((), 2, "usage: --text is required"),
    (("--text", "{f}/absent"), 3, "not_found.*absent"),
    (("--text", "{f}/latin"), 3, "invalid_utf8"),
    (("--text", "{f}/empty"), 3, "invalid_value: the text .*empty has 0 tokens, too few for mean"),
    (("--text", "{f}/text", "-o", "{f}/no/m.keys"), 3, "no/m.keys"),
], ids=["no text", "absent", "not UTF-8", "empty", "no folder"])
def test_errors_of_a_calibration(tiny, words, status, said):
    (tiny / "latin").write_bytes(b"ab\xe4c" * 200)
    (tiny / "empty").write_text("")
    done = calibrate(tiny, *(w.replace("{f}", str(tiny)) for w in words))
    assert done.returncode == status, done.stderr
    assert re.search(said, done.stderr, re.S), done.stderr
    assert done.stdout == "" and "1 of" not in done.stderr, "the check came after the work"


WRONG = {
    "no text": ((), 2, "usage", "one of --text and --tokens"),
    "absent text": (("--text", "{f}/absent"), 3, "not_found", "absent"),
    "a folder": (("--text", "{f}"), 3, "io_error", "{f}"),
    "short text": (("--text", "{f}/text", "--context", 600), 3, "invalid_value",
                   "too few for one context of 600"),
    "beyond the model": (("--text", "{f}/text", "--context", 300), 3, "invalid_value",
                         "longer than the 256 of the model"),
    "not UTF-8": (("--text", "{f}/latin"), 3, "invalid_utf8", "byte 3"),
    "no ids": (("--tokens", "{f}/text"), 3, "invalid_value", "holds no token ids"),
    "foreign ids": (("--tokens", "{f}/foreign.json"), 3, "invalid_token", "token 259 at position"),
    "unknown policy": (("--tokens", "{f}/ids.json", "--kv", "f16,k9v9"), 2, "usage",
                       "k9v9.*k8v4, k6v4, k5v3"),
    "auto": (("--tokens", "{f}/ids.json", "--kv", "f16,auto"), 2, "usage",
             "--kv auto: auto is not a policy but a choice by an engine's memory and load.*k8v4"),
    "protection beyond": (("--tokens", "{f}/ids.json", "--kv", "f16", "--kv-protect", "first:99"),
                          3, "invalid_value", "--kv-protect first:99: the model has 1 layer"),
    "unknown protection": (("--tokens", "{f}/ids.json", "--kv-protect", "edges"), 2, "usage",
                           "--kv-protect.*edges.*first:N"),
    "head size": (("--tokens", "{f}/ids.json", "--kv", "f16,q8"), 3, "unsupported_field",
                  "16"),
    "no mean keys": (("--tokens", "{f}/ids.json", "--kv-center", "{f}/text"), 3, "invalid_value",
                     "{f}/text is not a file of mean keys.*millrace calibrate"),
    "vocabulary": (("--tokens", "{f}/ids.json", "--reference", "{f}/vocabulary.f32"), 3,
                   "invalid_value", "logits of 70 tokens, the model's vocabulary has 259"),
    "positions": (("--tokens", "{f}/ids.json", "--reference", "{f}/positions.f32"), 3,
                  "invalid_value", "11 rows, which is not the number for 3 contexts"),
    "reference": (("--tokens", "{f}/ids.json", "--reference", "{f}/text"), 3, "invalid_value",
                  "holds no logits"),
    "plot": (("--tokens", "{f}/ids.json", "--plot", "{f}/no/plot.png"), 3, "",
             "no/plot.png"),
    "plot over a folder": (("--tokens", "{f}/ids.json", "--plot", "{f}"), 3, "", "{f}"),
}


@pytest.mark.parametrize("words, status, code, said", WRONG.values(), ids=WRONG.keys())
def test_errors_of_a_measurement(tiny, words, status, code, said):
    (tiny / "latin").write_bytes(b"ab\xe4c" * 200)
    (tiny / "foreign.json").write_text(json.dumps({"tokens": [1] * 99 + [259]}))
    write_logits(tiny / "vocabulary.f32", np.zeros((93, 70)))
    write_logits(tiny / "positions.f32", np.zeros((11, 259)))
    kv = () if "--kv" in words else ("--kv", "f16")
    done = call("millrace", "fidelity", "--model", tiny / "m.gguf", *kv,
                *(str(w).replace("{f}", str(tiny)) for w in words))
    assert done.returncode == status, done.stderr
    assert f"millrace: {code}" in done.stderr
    assert re.search(said.replace("{f}", re.escape(str(tiny))), done.stderr, re.S), done.stderr
    assert done.stdout == ""


def test_a_refused_plot_leaves_what_was_there(tiny):
    kept = tiny / "kept.png"
    kept.write_text("mine")
    assert measure(tiny, "--kv", "nosuch", "--plot", kept).returncode == 2
    assert measure(tiny, "--contexts", 1, "--context", 400, "--kv", "f16", "--plot",
                   kept).returncode == 3
    assert kept.read_text() == "mine"
    absent = tiny / "absent.png"
    assert measure(tiny, "--kv", "f16", "--context", 400, "--plot", absent).returncode == 3
    assert not absent.exists()
