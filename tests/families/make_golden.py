#!/usr/bin/env python3
"""Computes the golden logits anew: make_golden.py [MODEL...], by default of all models.

Needs the packages of this folder's requirements.txt, 5 GB, in an environment of their own. Writes
golden/MODEL.npy, float64 logits rounded once to float32 [position, every fifth token], and notes
in golden/made.json of which weights and with which versions they were made. For models that can
be read as folders of a hub, golden/configs/MODEL.json has the configuration. Where llama.cpp
computes something else, golden/as-llama.cpp/MODEL.npy has the logits of the class that does, too.
"""
import json
import pathlib
import platform
import sys

import numpy as np
import torch
import transformers

import hugging_face
from models import COLUMNS, MODELS

GOLDEN = pathlib.Path(__file__).with_name("golden")


def main():
    torch.set_num_threads(1)
    made = GOLDEN / "made.json"
    notes = json.loads(made.read_text()) if made.exists() else {}
    for name in sys.argv[1:] or MODELS:
        logits = hugging_face.logits(MODELS[name], MODELS[name].prompt())
        np.save(GOLDEN / f"{name}.npy", logits[:, COLUMNS].astype("<f4"))
        if changes := hugging_face.AS_LLAMA_CPP.get(name):
            peer = hugging_face.logits(MODELS[name], MODELS[name].prompt(), changes)
            np.save(GOLDEN / "as-llama.cpp" / f"{name}.npy", peer[:, COLUMNS].astype("<f4"))
        notes[name] = {"weights": MODELS[name].digest(), "spread": round(float(logits.std()), 3),
                       "transformers": transformers.__version__,
                       "torch": torch.__version__.partition("+")[0], "numpy": np.__version__,
                       "python": platform.python_version()}
        if (config := GOLDEN / "configs" / f"{name}.json").exists():
            made_config = hugging_face.configuration(MODELS[name])
            made_config.architectures = [hugging_face.classes(name)[1].__name__]
            made_config.dtype = "float32"
            made_config.to_json_file(config)
        print(f"{name}: spread {logits.std():.3f}", flush=True)
    made.write_text(json.dumps(notes, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
