#!/usr/bin/env python3
"""Measures how far fast math and llama.cpp are from the official classes, family by family.

    build-families/venv/bin/python bench/fidelity/families.py [MODEL...] [--type Q4_0] [--times N]
    build-families/venv/bin/python bench/fidelity/families.py --gemma M.gguf

MODEL is one of the tiny random models of tests/families, by default each; its matrices are in Q8_0
and in Q4_0, or only in that of --type, and it reads windows of 128 random tokens, --times as many
as usual. With --gemma it is Gemma 3 270M, which reads the text of tests/golden/gemma-3-270m.json.
The second half of each window is scored. Both sides read the same file, have F16 keys and values
and round activations to 8 bits.

The reference is PyPI `transformers` in float64 with the values that the file stands for. llama.cpp
rotates `gpt-oss` otherwise (tests/families/README.md): its reference is the class that does so,
too. It has no window for `mistral`, whose file therefore has none. Prints one JSON object a line:

  model, type, positions
  ours, llama_cpp            mean KL divergence from the reference, nats a position
  ratio, low, high           ours over llama.cpp's, and its range in 95 % of resamplings of windows
  our_median, llama_cpp_median
  our_top1, llama_cpp_top1   share of positions with the reference's likeliest token

Where experts are chosen, rounding chooses another one at few positions, and these make most of the
mean: its range is wide, and such models read eight times the windows.

Needs the packages of tests/families/requirements.txt: bench/python.sh families installs them.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

os.environ["OMP_NUM_THREADS"] = "1"  # the models are too small for more
import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/families"), str(ROOT / "tests/golden")]
import fidelity  # noqa: E402
import gemma_reference  # noqa: E402
import hugging_face  # noqa: E402
import weights  # noqa: E402
from models import MODELS  # noqa: E402
from quantized import Quantized  # noqa: E402

WINDOWS, WINDOWS_OF_EXPERTS, SIZE = 32, 256, 128
WINDOWS_AT_ONCE = 256  # in the reference, which keeps a window's scores and activations in memory
TYPES = ["Q8_0", "Q4_0"]
RESAMPLINGS = 2000


class Distance:
    """KL divergences from the reference and the likeliest tokens, by position."""

    def __init__(self, logits, reference, part=64):
        assert logits.shape == reference.shape, (logits.shape, reference.shape)
        self.kld, same = [], []
        for at in range(0, len(logits), part):
            got = fidelity.log_softmax(logits[at:at + part])
            truth = fidelity.log_softmax(reference[at:at + part])
            self.kld += (np.exp(truth) * (truth - got)).sum(-1).tolist()
            same += (truth.argmax(-1) == got.argmax(-1)).tolist()
        self.top1 = float(np.mean(same))


def resampled(ours, theirs, windows):
    """The range of the means' ratio if other windows had been read."""
    ours, theirs = (np.reshape(x, (windows, -1)).mean(-1) for x in (ours, theirs))
    chosen = np.random.default_rng(1).integers(0, windows, (RESAMPLINGS, windows))
    return np.quantile(ours[chosen].sum(-1) / theirs[chosen].sum(-1), [.025, .975])


def compared(name, kind, path, contexts, reference, as_llama_cpp):
    """Both sides on one file; `contexts` is the file of tokens."""
    ours, said = fidelity.engine_logits(path, contexts, "fast", "--kv", "f16")
    theirs = fidelity.llama_logits(path, contexts)
    ours = Distance(ours, reference)
    theirs = Distance(theirs, as_llama_cpp)
    windows = len(fidelity.windows(contexts))
    row = {"model": name, "type": kind, "positions": len(ours.kld), "kv": said["kv"],
           "ours": np.mean(ours.kld), "llama_cpp": np.mean(theirs.kld),
           "our_median": np.median(ours.kld), "llama_cpp_median": np.median(theirs.kld),
           "our_top1": ours.top1, "llama_cpp_top1": theirs.top1}
    row["ratio"] = row["ours"] / row["llama_cpp"]
    # One window of text has parts instead, which are not independent.
    parts = windows if windows > 1 else 7
    row["low"], row["high"] = resampled(ours.kld, theirs.kld, parts)
    return row


def write_contexts(folder, tokens, size):
    path = folder / "contexts.json"
    path.write_text(json.dumps({"context": size, "tokens": tokens}))
    return path


def tiny(name, kind, folder, times):
    plain, changes = MODELS[name], hugging_face.AS_LLAMA_CPP.get(name)
    if name == "mistral":  # without a window attention averages the errors of more keys
        plain = dataclasses.replace(plain, keys={key: value for key, value in plain.keys.items()
                                                 if key != "attention.sliding_window"})
    model = Quantized(plain, kind)
    path = model.write(folder / "tiny.gguf")
    has_experts = any("_exps." in tensor for tensor in model.blocks)
    windows = times * (WINDOWS_OF_EXPERTS if has_experts else WINDOWS)
    tokens = weights.tokens(f"{name} fidelity", windows * SIZE)
    contexts = write_contexts(folder, tokens, SIZE)
    cut = fidelity.windows(contexts)

    def reference(changes):
        rows = [hugging_face.many_logits(model, cut[at:at + WINDOWS_AT_ONCE], changes)
                [:, fidelity.scored(cut[0])] for at in range(0, windows, WINDOWS_AT_ONCE)]
        return np.concatenate(rows).reshape(-1, rows[0].shape[-1])
    as_llama_cpp = reference(changes)
    same = name != "gpt-oss" and name not in hugging_face.recurrent.DELTA_NETS
    return compared(name, kind, path, contexts, as_llama_cpp if same else reference(None),
                    as_llama_cpp)


def gemma(path, folder):
    tokens = json.loads(gemma_reference.GOLDEN.read_text())["tokens"]
    contexts = write_contexts(folder, tokens, len(tokens))
    network, _ = gemma_reference.read(path)
    rows = np.concatenate([part.astype(np.float32)
                           for part in gemma_reference.logits(network, tokens)])
    rows = rows[fidelity.scored(tokens)]
    return compared("Gemma 3 270M", "Q4_K_M", path, contexts, rows, rows)


def show(row):
    print(json.dumps({key: float(f"{x:.4g}") if isinstance(x, float) else x
                      for key, x in row.items()}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="*", help="default: each")
    parser.add_argument("--type", choices=TYPES, help="default: each")
    parser.add_argument("--times", type=int, default=1, metavar="N",
                        help="read N times as many windows, which narrows the range")
    parser.add_argument("--gemma", metavar="M.gguf", help="measure Gemma 3 270M instead")
    args = parser.parse_args()
    if unknown := set(args.model) - set(MODELS):
        parser.error(f"no model {', '.join(unknown)}: tests/families/models.py has "
                     f"{', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        if args.gemma:
            show(gemma(args.gemma, folder))
            return
        for name in args.model or MODELS:
            for kind in [args.type] if args.type else TYPES:
                show(tiny(name, kind, folder, args.times))


if __name__ == "__main__":
    main()
