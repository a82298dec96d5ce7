#!/usr/bin/env python3
"""Measures how far llama.cpp's logits are from the golden ones: llama_cpp.py [MODEL...], by default
all models. Writes golden/llama_cpp.json.

llama.cpp is the prebuilt library that bench/llama.sh --library fetches; it reads the same files.
Each model has three figures: with keys and values in f32, in f16, and in f16 with flash attention,
which is llama.cpp's default. The golden logits are those of as-llama.cpp/ if there are any.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bench/fidelity")]
import fidelity  # noqa: E402
import write_gguf  # noqa: E402
from models import COLUMNS, MODELS  # noqa: E402

FIGURES = HERE / "golden/llama_cpp.json"
OPTIONS = {"f32": ["f32"], "f16": ["f16"], "f16, flash attention": []}


def golden(name):
    """The logits of what llama.cpp computes for the model."""
    kept = HERE / f"golden/as-llama.cpp/{name}.npy"
    return np.load(kept if kept.exists() else HERE / f"golden/{name}.npy").astype(np.float64)


def distance(logits, wanted):
    """The largest and the root mean square difference."""
    off = np.abs(logits - wanted)
    return {"max": float(f"{off.max():.3g}"), "rms": float(f"{np.sqrt((off ** 2).mean()):.3g}")}


def figures(name):
    """Option -> distance."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_gguf.write(MODELS[name], pathlib.Path(folder) / "tiny.gguf")
        prompt = MODELS[name].prompt()
        return {option: distance(fidelity.llama_rows(path, [prompt], range(len(prompt)), *words)
                                 [:, COLUMNS], golden(name)) for option, words in OPTIONS.items()}


def main():
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for name in sys.argv[1:] or MODELS:
        kept[name] = {"weights": MODELS[name].digest(), **figures(name)}
        print(name, kept[name], flush=True)
    FIGURES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
