#!/usr/bin/env python3
"""Measures how far next-token distributions, ours and a peer's, are from the float64 reference.

    bench/fidelity/fidelity.py MODEL.gguf [--side exact --side llama.cpp ...] [--contexts C.json]

The text is cut into contexts, each read from its first token. The second half of each is scored,
teacher-forced: 3 x 255 positions for three contexts of 512 tokens. A side is a math mode of the
engine (`exact`) or `llama.cpp` (prebuilt, fetched by bench/llama.sh --library). Prints one JSON
object with a row for each side:

  mean_kld, p99_kld          sum over the vocabulary of p_ref (log p_ref - log p), nats a position
  top1                       share of positions with the reference's most likely token
  mean_logprob_difference    mean |log p_ref - log p| of the text's own tokens
  perplexity                 of the text's own tokens

The reference, tests/reference/reference_llama.py, reads the same file, dequantises its weights
exactly and computes in float64. Its logits take a minute, so they are cached under the hashes of
model, contexts and reference. Needs numpy and gguf.
"""
import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/reference"
CACHES = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE = CACHES / "millrace"
BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")) / "bin"
SOURCE = REFERENCE / "reference_llama.py"
CONTEXTS = "contexts/perlthrtut-3x512.json"
MATH_MODES = ["exact", "fast"]
THREADS = os.environ.get("OMP_NUM_THREADS") or os.cpu_count()  # of llama.cpp


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def windows(contexts):
    """The tokens of each context."""
    given = json.loads(pathlib.Path(contexts).read_text())
    size, tokens = given["context"], given["tokens"]
    return [tokens[a:a + size] for a in range(0, len(tokens) - size + 1, size)]


def scored(window):
    """The positions of a context that are scored: n/2 to n-2."""
    return range(len(window) // 2, len(window) - 1)


def targets(contexts):
    return np.array([w[i + 1] for w in windows(contexts) for i in scored(w)])


def every_position(window):
    return range(len(window) - 1)


def compute_reference(model, contexts, positions=scored):
    """float32 [rows, vocabulary] from the float64 forward pass."""
    spec = importlib.util.spec_from_file_location("reference_llama", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    llama = module.Llama(str(model))
    rows = [llama.forward(w)[positions(w)].astype(np.float32) for w in windows(contexts)]
    return np.concatenate(rows)


def reference_logits(model, contexts):
    """The same, from the cache if it is there."""
    folder = CACHE / "fidelity"
    kept = folder / f"{digest(model)}-{digest(contexts)}-{digest(SOURCE)}.npy"
    if not kept.exists():
        logits = compute_reference(model, contexts)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".npy", delete=False) as part:
            np.save(part, logits)
        os.replace(part.name, kept)  # another process may compute the same; the last one wins
    return np.load(kept, mmap_mode="r")


def read_logits(path):
    with open(path, "rb") as file:
        if file.read(8) != b"MLOGITS1":
            sys.exit(f"{path} holds no logits")
        shape = np.fromfile(file, "<i4", 2)
        return np.fromfile(file, "<f4").reshape(shape)


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def engine_logits(model, contexts, math, *options):
    """The engine's logits, and the JSON object that engine_logits prints."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits"
        said = run([BIN / "engine_logits", "--model", model, "--contexts", contexts, "--math",
                    math, "--output", out, *options])
        return read_logits(out), json.loads(said)


def llama_library():
    """The folder of llama.cpp's prebuilt libraries."""
    return pathlib.Path(run([ROOT / "bench/llama.sh", "--library"]).split()[-1])


def llama_program():
    """The path of llama_logits; compiles it if its source or the library is new."""
    library = llama_library()
    source = pathlib.Path(__file__).with_name("llama_logits.cpp")
    program = library / f"llama_logits-{digest(source)}"
    if not program.exists():
        code = pathlib.Path(run([ROOT / "bench/llama.sh", "--source"]).split()[-1])
        libraries = [next(library.glob(f"lib{name}*.so")) for name in
                     ("llama.", "ggml.", "ggml-base")]
        run(["g++", "-O1", "-std=c++17", source, "-I", code / "include", "-I",
             code / "ggml/include", *libraries, f"-Wl,-rpath,{library}", "-o", program])
    return program


def llama_rows(model, cut, rows, *options):
    """llama.cpp's logits in the rows, a range, of each of the windows, which have one length."""
    program = llama_program()
    with tempfile.TemporaryDirectory() as folder:
        tokens, out = pathlib.Path(folder) / "tokens", pathlib.Path(folder) / "logits"
        head = [len(cut[0]), rows.start, rows.stop]
        tokens.write_text(" ".join(map(str, [*head, *sum(cut, [])])))
        run([program, model, tokens, out, THREADS, program.parent, *options])
        return read_logits(out)


def llama_logits(model, contexts):
    cut = windows(contexts)
    return llama_rows(model, cut, scored(cut[0]))


def log_softmax(z):
    z = z.astype(np.float64)
    z -= z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def compare(reference, logits, tokens):
    """Compares two arrays [rows, vocabulary], a few rows at a time to save memory."""
    if logits.shape != reference.shape:
        sys.exit(f"logits are {logits.shape}, the reference's {reference.shape}")
    kld, same, ours, theirs = [], [], [], []
    for at in range(0, len(tokens), 64):
        part = slice(at, at + 64)
        truth, got = log_softmax(reference[part]), log_softmax(logits[part])
        kld.append((np.exp(truth) * (truth - got)).sum(-1))
        same.append(truth.argmax(-1) == got.argmax(-1))
        rows = np.arange(len(truth))
        theirs.append(truth[rows, tokens[part]])
        ours.append(got[rows, tokens[part]])
    kld, ours, theirs = np.concatenate(kld), np.concatenate(ours), np.concatenate(theirs)
    return {"positions": len(tokens), "mean_kld": float(kld.mean()),
            "p99_kld": float(np.quantile(kld, 0.99)), "top1": float(np.concatenate(same).mean()),
            "mean_logprob_difference": float(np.abs(ours - theirs).mean()),
            "perplexity": float(np.exp(-ours.mean())),
            "reference_perplexity": float(np.exp(-theirs.mean()))}


def measure(model, side, contexts=None, options=(), reference=None):
    """One row of the table: `side` against the reference on the same file."""
    contexts = contexts or REFERENCE / CONTEXTS
    if side == "llama.cpp":
        logits, said = llama_logits(model, contexts), {}
    else:
        logits, said = engine_logits(model, contexts, side, *options)
    if reference is None:
        reference = reference_logits(model, contexts)
    row = compare(reference, logits, targets(contexts))
    return {"side": side, **row, **said}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--side", action="append", choices=[*MATH_MODES, "llama.cpp"])
    parser.add_argument("--contexts", default=REFERENCE / CONTEXTS)
    args = parser.parse_args()
    sides = args.side or [*MATH_MODES, "llama.cpp"]
    rows = [measure(args.model, side, args.contexts) for side in sides]
    print(json.dumps({"model": pathlib.Path(args.model).name,
                      "contexts": pathlib.Path(args.contexts).name, "sides": rows}, indent=2))


if __name__ == "__main__":
    main()
