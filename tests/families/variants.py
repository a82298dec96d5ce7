"""Other files of the same models, as they are in use. Their logits are those of the model."""
import dataclasses

import numpy as np

from models import MODELS, PRE_RENAMED, attention, dense, experts, matrix
from recurrent import gated_attention


class Variant:
    """A model with other metadata and tensors."""

    def __init__(self, base, metadata, tensors):
        self.arch = base.arch
        self.metadata = lambda: metadata
        self.tensors = lambda: tensors


def fused(model):
    """Queries, keys and values are one matrix, as the converter's option --fuse-qkv makes it."""
    tensors = model.tensors()
    out = {}
    for name, values in tensors.items():
        prefix = name.rpartition("attn_q.")[0]
        if name.endswith("attn_q.weight"):
            out[f"{prefix}attn_qkv.weight"] = np.concatenate(
                [values, tensors[f"{prefix}attn_k.weight"], tensors[f"{prefix}attn_v.weight"]])
        elif not name.endswith(("attn_k.weight", "attn_v.weight")):
            out[name] = values
    return Variant(model, model.metadata(), out)


def without(model, *keys):
    """Lacks keys that state what the architecture implies, as some files in use do."""
    metadata = {k: v for k, v in model.metadata().items() if k.partition(".")[2] not in keys}
    assert len(metadata) == len(model.metadata()) - len(keys)
    return Variant(model, metadata, model.tensors())


def draft(s):
    return [matrix("nextn.eh_proj", s.width, 2 * s.width)] + [
        (f"nextn.{name}.weight", "norm", (s.width,))
        for name in ("enorm", "hnorm", "shared_head_norm")]


def with_draft(model, *parts, **keys):
    """Has one more block, which drafts tokens and takes no part in the logits."""
    count = model.sizes.layers
    last = (PRE_RENAMED, *parts, draft)
    return dataclasses.replace(
        model, sizes=dataclasses.replace(model.sizes, layers=count + 1),
        keys=model.keys | {"nextn_predict_layers": 1} | keys,
        layer=lambda layer: last if layer == count else model.layer(layer))


RECURRENT = "attention.recurrent_layers"

# Name -> the model whose logits it has, and the file.
VARIANTS = {
    "qwen3moe-fused": ("qwen3moe", fused(MODELS["qwen3moe"])),
    "gemma3-implied": ("gemma3", without(MODELS["gemma3"], "rope.freq_base_swa")),
    "glm4moe-draft": ("glm4moe", with_draft(
        MODELS["glm4moe"], attention("q k v", norm="head"), experts(choice=(8,), shared=64))),
    # Its drafting block attends.
    "qwen35-draft": ("qwen35", with_draft(
        MODELS["qwen35"], gated_attention, dense(),
        **{RECURRENT: MODELS["qwen35"].keys[RECURRENT] + [False]})),
    "qwen35-implied": ("qwen35", without(MODELS["qwen35"], RECURRENT)),
}
