"""The tiny models on which KV policies are measured: hybrids and Gemma 4, and `llama` beside them.

Packed codecs are laid out for heads of 64 channels and more, so models of models.py with smaller
ones have larger ones here. `gemma4-large` has the head sizes of real files, 256 and 512. A model
keeps its name in models.py, from which its weights and its class follow; `changes` are those of the
class's configuration.

A gate is what the exact definition of a policy's codecs costs the official class on the same tokens
(golden/kv_policies.json), times ROOM, as the gates of tests/golden/kv_fidelity_test.cpp are of
SmolLM2. Those figures themselves say nothing of random weights, whose logits move further.
"""
import dataclasses
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/fidelity"))
import fidelity  # noqa: E402
import gemma4  # noqa: E402
import weights  # noqa: E402
from models import MODELS, WINDOW, Model  # noqa: E402
from parts import SANDWICH  # noqa: E402

EXPECTED = pathlib.Path(__file__).with_name("golden") / "kv_policies.json"
ROOM = 1.3
WINDOWS, SIZE = 4, 128  # of random tokens
# The presets, and their codecs as tests/reference/kv_codecs.py names them.
POLICIES = {"q8": "q8g64/q8g64", "k8v4": "q8g64/r4", "k6v4": "r6/r4", "k5v3": "r5/r3",
            "k4v3": "r4/r3", "q4": "q4g64/q4g64", "turboquant-4": "r4/r4",
            "turboquant-3.5": "r3/r4"}


@dataclasses.dataclass(frozen=True)
class KvModel:
    model: Model
    changes: dict = dataclasses.field(default_factory=dict)


def resized(name, **sizes):
    model = MODELS[name]
    return dataclasses.replace(model, sizes=dataclasses.replace(model.sizes, **sizes))


def llama():
    """Without the factors of rope, which are those of heads of 32."""
    keys = {**MODELS["llama"].keys, "rope.dimension_count": 64}
    return KvModel(dataclasses.replace(resized("llama", head_dim=64), keys=keys, fixed={}),
                   dict(rope_parameters=dict(rope_type="default", rope_theta=5e5)))


def large_gemma():
    s = dataclasses.replace(MODELS["gemma4"].sizes, head_dim=256)
    model = dataclasses.replace(
        MODELS["gemma4"], sizes=s, keys=gemma4.TINY.small_keys(s, WINDOW),
        layer=gemma4.TINY.small_layer(SANDWICH, s),
        fixed={"rope_freqs.weight": gemma4.turned(s)})
    return KvModel(model, dict(head_dim=256, global_head_dim=gemma4.global_head_dim(s)))


KV_MODELS = {
    "llama": llama(),
    "qwen35": KvModel(MODELS["qwen35"]),
    "lfm2": KvModel(resized("lfm2", heads=2, head_dim=64)),
    "granitehybrid": KvModel(resized("granitehybrid", heads=2, head_dim=64)),
    "nemotron_h": KvModel(resized("nemotron_h", head_dim=64)),
    "falcon-h1": KvModel(resized("falcon-h1", head_dim=64)),
    "gemma4": KvModel(MODELS["gemma4"]),
    "gemma4-moe": KvModel(MODELS["gemma4-moe"]),
    "gemma4-large": large_gemma(),
}


def write_contexts(name, folder):
    """The file of tokens that engine_logits and fidelity.py read."""
    path = folder / "contexts.json"
    tokens = weights.tokens(f"{name} policies", WINDOWS * SIZE)
    path.write_text(json.dumps({"context": SIZE, "tokens": tokens}))
    return path


def distance(truth, logits):
    """The mean KL divergence from the truth, and the share of positions with its likeliest
    token."""
    truth, got = fidelity.log_softmax(truth), fidelity.log_softmax(logits)
    kld = (np.exp(truth) * (truth - got)).sum(-1)
    return float(kld.mean()), float((truth.argmax(-1) == got.argmax(-1)).mean())
