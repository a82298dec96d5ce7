"""Tiny folders of a hub for the tests of this folder, and the program that reads them."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "families"))
from models import MODELS  # noqa: E402
import checkpoint  # noqa: E402
import write_folder  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", HERE.parents[2] / "build"))


def probe(model, tmp_path):
    """What hub_probe says of a model, and its tensors: name -> (type, float32 array)."""
    output = tmp_path / "numbers"
    made = subprocess.run([BUILD / "bin/hub_probe", model, output], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    said = json.loads(made.stdout)
    numbers, tensors, at = np.fromfile(output, "<f4"), {}, 0
    for tensor in said["tensors"]:
        shape = tensor["shape"][::-1]
        size = int(np.prod(shape))
        tensors[tensor["name"]] = tensor["type"], numbers[at:at + size].reshape(shape)
        at += size
    assert at == len(numbers)
    return said, tensors


def refusal(model, tmp_path):
    """The code and the text of the error with which a model is refused."""
    made = subprocess.run([BUILD / "bin/hub_probe", model, tmp_path / "numbers"],
                          capture_output=True, text=True)
    assert made.returncode == 1, made.stdout[:200]
    code, _, text = made.stderr.partition(": ")
    return code, text


def quantized(tmp_path, parts, quantization, model="llama", drop=()):
    """A folder of a model in which `parts` stand in the place of the tensors `drop`."""
    tensors = {name: values for name, values in checkpoint.saved(MODELS[model]).items()
               if name not in drop}
    config = write_folder.config(model) | {"quantization_config": quantization}
    return write_folder.write(MODELS[model], tmp_path / "folder", config, tensors | parts)
