#!/usr/bin/env python3
"""Gemma 3 270M as PyPI `transformers` reads and computes it: gemma_reference.py MODEL.gguf
writes gemma-3-270m.json, the likeliest token of every position of a text and how far it leads.

`transformers` dequantizes the file with PyPI `gguf`, which is exact, and everything after that is
float64. Needs the packages of tests/families/requirements.txt, 5 GB, in an environment of their
own (tests/families/README.md), 8 GB of memory and two minutes.
"""
import hashlib
import json
import pathlib
import platform
import sys
import tempfile

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "families"))
from hugging_face import float64_for_float32  # noqa: E402

GOLDEN = HERE / "gemma-3-270m.json"
TEXT = pathlib.Path("/usr/share/perl/5.36.0/pod/perlthrtut.pod")  # Debian's perl-doc
TOKENS = 1024  # twice the window


def read(path):
    """The model and its tokenizer; the arithmetic of the model is float64 throughout."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "m.gguf").symlink_to(pathlib.Path(path).resolve())
        given = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file="m.gguf", dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file="m.gguf")
    config = given.config
    config._attn_implementation = "eager"
    with float64_for_float32():  # built anew, so that the frequencies of the rotation are float64
        network = type(given)(config).eval().to(torch.float64)
        network.load_state_dict(given.state_dict())
    return network, tokenizer


def logits(network, tokens, part=64):
    """Yields float64 [positions, vocabulary], a part of the positions at a time."""
    with torch.inference_mode(), float64_for_float32():
        hidden = network.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
        for at in range(0, len(tokens), part):
            yield network.lm_head(hidden[at:at + part]).numpy()


def likeliest(network, tokens):
    """The likeliest token of each position, and its logit less the second one's."""
    top, lead = [], []
    for rows in logits(network, tokens):
        two = np.partition(rows, -2, axis=-1)[:, -2:]
        top += rows.argmax(-1).tolist()
        lead += (two[:, 1] - two[:, 0]).round(4).tolist()
    return top, lead


def golden(path):
    network, tokenizer = read(path)
    # The file asks for a first token <bos>.
    tokens = [network.config.bos_token_id] + tokenizer(
        TEXT.read_text(), add_special_tokens=False).input_ids
    tokens = tokens[:TOKENS]
    top, lead = likeliest(network, tokens)
    with open(path, "rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {"model": checksum, "text": f"the first {TOKENS} tokens of {TEXT} of Debian bookworm",
            "transformers": transformers.__version__,
            "torch": torch.__version__.partition("+")[0], "python": platform.python_version(),
            "tokens": tokens, "top": top, "lead": lead}


def main():
    torch.set_num_threads(2)
    made = golden(sys.argv[1])
    # One line for each key.
    GOLDEN.write_text("{\n" + ",\n".join(
        f" {json.dumps(key)}: {json.dumps(value)}" for key, value in made.items()) + "\n}\n")
    lead = np.array(made["lead"])
    print(f"{len(lead)} positions, {np.sum(lead > .1)} of them lead by more than 0.1")


if __name__ == "__main__":
    main()
