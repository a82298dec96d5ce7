#!/usr/bin/env python3
"""Measures what KV policies cost hybrids and Gemma 4, against the official classes.

    build-families/venv/bin/python bench/fidelity/policies.py [MODEL...] [--save-expected]

MODEL is one of tests/families/kv_models.py, by default each. It reads windows of 128 random tokens,
and the second half of each is scored. The engine computes with `--math exact`, so that only the
policy and fp16 KV add to the distance. The truth is PyPI `transformers` in float64, with keys and
values that are not rounded. What a policy is expected to cost is the distance of the same class
whose attention reads keys and values through tests/reference/kv_codecs.py, the exact definition of
the codecs. Prints one JSON object a line:

  model, policy, kv, positions     kv: the codecs of the layers that store keys and values
  ours, ours_top1                  mean KL divergence from the truth, nats a position; the share of
                                   positions with its likeliest token
  f16, f16_top1                    the same of the engine with KV f16
  expected, expected_top1          the same of the class with the codecs

--save-expected writes what is expected to tests/families/golden/kv_policies.json, which
tests/families/test_kv_fidelity.py reads. Needs the packages of tests/families/requirements.txt.
"""
import argparse
import contextlib
import functools
import importlib
import json
import os
import pathlib
import sys
import tempfile

os.environ["OMP_NUM_THREADS"] = "1"  # the models are too small for more
import numpy as np  # noqa: E402
import torch  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/families"), str(ROOT / "tests/reference")]
import fidelity  # noqa: E402
import hugging_face  # noqa: E402
import kv_codecs  # noqa: E402
import write_gguf  # noqa: E402
from kv_models import EXPECTED, KV_MODELS, POLICIES, distance, write_contexts  # noqa: E402


@contextlib.contextmanager
def stored(model, policy):
    """Lets the model's class read keys and values as a cache of the policy gives them back."""
    module = importlib.import_module(hugging_face.classes(model.name)[1].__module__)
    kept = module.eager_attention_forward

    def attention(layer, query, key, value, *rest, **options):
        pair = kv_codecs.Policy(policy, 1).pair(0)
        key, value = (torch.from_numpy(codec(x.numpy())) for codec, x in zip(pair, (key, value)))
        return kept(layer, query, key, value, *rest, **options)
    module.eager_attention_forward = attention
    try:
        yield
    finally:
        module.eager_attention_forward = kept


def measured(name, folder):
    """Yields a row for each policy."""
    made = KV_MODELS[name]
    path = write_gguf.write(made.model, folder / "tiny.gguf")
    contexts = write_contexts(name, folder)
    cut = fidelity.windows(contexts)

    def of_class():
        rows = hugging_face.many_logits(made.model, cut, made.changes)
        return rows[:, fidelity.scored(cut[0])].reshape(-1, rows.shape[-1])
    from_truth = functools.partial(distance, of_class())
    f16 = from_truth(fidelity.engine_logits(path, contexts, "exact", "--kv", "f16")[0])
    for policy, codecs in POLICIES.items():
        logits, said = fidelity.engine_logits(path, contexts, "exact", "--kv", policy)
        with stored(made.model, codecs):
            expected = from_truth(of_class())
        ours = from_truth(logits)
        yield {"model": name, "policy": policy, "kv": said["kv"], "positions": said["rows"],
               "ours": ours[0], "ours_top1": ours[1], "f16": f16[0], "f16_top1": f16[1],
               "expected": expected[0], "expected_top1": expected[1]}


def save(rows):
    """Replaces what is expected of the models that were measured."""
    kept = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for row in rows:
        of_model = kept.setdefault(row["model"], {})
        of_model["weights"] = KV_MODELS[row["model"]].model.digest()
        of_model[row["policy"]] = float(f"{row['expected']:.4g}")
    EXPECTED.write_text(json.dumps(kept, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="*", help="default: each")
    parser.add_argument("--save-expected", action="store_true")
    args = parser.parse_args()
    if unknown := set(args.model) - set(KV_MODELS):
        parser.error(f"no model {', '.join(unknown)}: tests/families/kv_models.py has "
                     f"{', '.join(KV_MODELS)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.model or KV_MODELS:
            for row in measured(name, pathlib.Path(folder)):
                rows.append(row)
                print(json.dumps({key: float(f"{x:.4g}") if isinstance(x, float | np.floating)
                                  else x for key, x in row.items()}), flush=True)
    if args.save_expected:
        save(rows)


if __name__ == "__main__":
    main()
