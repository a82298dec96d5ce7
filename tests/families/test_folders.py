"""Compares the tiny models as folders of a hub with the same models as GGUF files: the engine's
logits must have the same bits."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import checkpoint  # noqa: E402
from models import MODELS  # noqa: E402
import write_folder  # noqa: E402
import write_gguf  # noqa: E402

# The models whose classes are read as folders.
NAMES = sorted(path.stem for path in write_folder.CONFIGS.glob("*.json"))
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", HERE.parents[1] / "build"))


def logits(model, path, tmp_path):
    """The bytes that families_probe writes, of every schedule."""
    tokens, output = tmp_path / "tokens.json", tmp_path / "logits"
    tokens.write_text(json.dumps([int(token) for token in model.prompt()]))
    made = subprocess.run([BUILD / "bin/families_probe", "--model", path, "--tokens", tokens,
                           "--output", output], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return output.read_bytes()


def same_logits(model, folder, tmp_path):
    file = tmp_path / "model.gguf"
    write_gguf.write(checkpoint.Rounded(model), file)
    return logits(model, folder, tmp_path) == logits(model, file, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_gives_the_bits_of_the_file(name, tmp_path):
    folder = write_folder.write(MODELS[name], tmp_path / "folder")
    assert same_logits(MODELS[name], folder, tmp_path)


def test_shards_give_the_bits_of_the_file(tmp_path):
    folder = write_folder.write(MODELS["qwen3moe"], tmp_path / "folder", shards=3)
    assert same_logits(MODELS["qwen3moe"], folder, tmp_path)


def with_old_keys(config):
    """The configuration as `transformers` 4 saved it: rope_theta, rope_scaling and the like."""
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        local = rope["sliding_attention"]
        if local["rope_theta"] != rope["full_attention"]["rope_theta"]:
            config["rope_local_base_freq"] = local["rope_theta"]
        rope = rope["full_attention"]
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in rope:
            config[key] = rope.pop(key)
    if rope["rope_type"] != "default":
        config["rope_scaling"] = {"type" if key == "rope_type" else key: value
                                  for key, value in rope.items()}
    config.pop("layer_types", None)  # which follow from the class
    return config


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2", "gemma3", "gpt-oss", "glm4",
                                  "phi3-long", "olmo3", "minimax-m2", "cohere2"])
def test_older_configurations_give_the_bits_of_the_file(name, tmp_path):
    config = with_old_keys(write_folder.config(name))
    folder = write_folder.write(MODELS[name], tmp_path / "folder", config)
    assert same_logits(MODELS[name], folder, tmp_path)


def test_a_model_of_several_senses_gives_the_bits_of_its_text(tmp_path):
    """Its configuration and tensors stand beside those of images."""
    text = write_folder.config("gemma3")
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text,
              "vision_config": {"hidden_size": 8}, "model_type": "gemma3"}
    text.pop("architectures")
    tensors = {name.replace("model.", "language_model.model.", 1): values
               for name, values in checkpoint.saved(MODELS["gemma3"]).items()}
    tensors["vision_tower.vision_model.embeddings.weight"] = np.zeros((2, 2), np.float32)
    folder = write_folder.write(MODELS["gemma3"], tmp_path / "folder", config, tensors)
    assert same_logits(MODELS["gemma3"], folder, tmp_path)


def test_other_weights_give_other_logits(tmp_path):
    """So the comparison above can fail."""
    tensors = checkpoint.saved(MODELS["llama"])
    tensors["model.layers.3.self_attn.q_proj.weight"] = \
        tensors["model.layers.3.self_attn.q_proj.weight"][::-1]
    folder = write_folder.write(MODELS["llama"], tmp_path / "folder", tensors=tensors)
    assert not same_logits(MODELS["llama"], folder, tmp_path)
