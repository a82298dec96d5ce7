#!/usr/bin/env python3
"""Writes tiny models as folders of a hub: write_folder.py FOLDER [MODEL...], by default all that
have a configuration.

Configurations stand in golden/configs, as the official classes saved them (make_golden.py).
"""
import json
import pathlib
import sys

import numpy as np

import checkpoint
from models import MODELS, VOCABULARY
from write_gguf import byte_characters

CONFIGS = pathlib.Path(__file__).with_name("golden") / "configs"


def safetensors(tensors):
    """The bytes of a file. `tensors` are name -> (dtype, array), or arrays of float32."""
    header, data = {}, b""
    for name, values in tensors.items():
        dtype, values = values if isinstance(values, tuple) else ("F32", values.astype("<f4"))
        bytes_ = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape),
                        "data_offsets": [len(data), len(data) + len(bytes_)]}
        data += bytes_
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tokenizer_json(pre_tokenizer=None):
    """The vocabulary that write_gguf.py writes."""
    texts = [*byte_characters(), "th", "in", *(f"<w{i}>" for i in range(258, VOCABULARY - 4))]
    special = ["<s>", "</s>", "<unk>", "<pad>"]
    return {
        "added_tokens": [{"id": VOCABULARY - 4 + i, "content": text, "special": True}
                         for i, text in enumerate(special)],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer or {"type": "ByteLevel", "add_prefix_space": False,
                                           "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(texts)},
                  "merges": [["t", "h"], ["i", "n"]]}}


TOKENIZER_CONFIG = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                    "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"}


def config(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())


def write_json(path, values):
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def write(model, folder, settings=None, tensors=None, shards=1):
    """Returns the folder. `settings` and `tensors` are those of the model by default."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", settings or config(model.name))
    write_json(folder / "tokenizer.json", tokenizer_json())
    write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)
    tensors = checkpoint.saved(model) if tensors is None else tensors
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        return folder
    places = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        (folder / name).write_bytes(safetensors(part))
        places |= dict.fromkeys(part, name)
    write_json(folder / "model.safetensors.index.json", {"weight_map": places})
    return folder


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or sorted(path.stem for path in CONFIGS.glob("*.json")):
        print(write(MODELS[name], folder / name))


if __name__ == "__main__":
    main()
