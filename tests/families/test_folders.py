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
from models import (  # noqa: E402
    GRANITE_LAYERS, MODELS, NEMOTRON_LAYERS, NEMOTRON_MOE_LAYERS)
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


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


INFINITY = float("inf")  # which json writes bare, as the class did
# The same settings as older versions of the classes, or the models' makers, state them.
OLDER = {
    "qwen35": lambda c: without(c, "layer_types") | {"full_attention_interval": 4},
    "qwen3next": lambda c: without(with_old_keys(c), "partial_rotary_factor"),
    "lfm2": lambda c: without(c, "layer_types", "tie_word_embeddings", "intermediate_size") | {
        "full_attn_idxs": [2, 4], "tie_embedding": True, "block_auto_adjust_ff_dim": True,
        "block_ff_dim": 150, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 64},
    "nemotron_h": lambda c: without(c, "layers_block_type") | {
        "hybrid_override_pattern": NEMOTRON_LAYERS, "num_hidden_layers": 8,
        "time_step_limit": [0.0, INFINITY]},
    "nemotron_h_moe": lambda c: c | {"layers_block_type": [
        {"M": "mamba", "*": "attention", "E": "moe"}[x] for x in NEMOTRON_MOE_LAYERS]},
    "granitehybrid": lambda c: c | {"mamba_d_head": "auto", "layer_types": [
        {"m": "mamba", "a": "attention"}[x] for x in GRANITE_LAYERS]},
    "mamba2": lambda c: without(c, "num_attention_heads", "num_key_value_heads",
                                "intermediate_size") | {"time_step_limit": [0.0, INFINITY]},
    "falcon-h1": lambda c: with_old_keys(c) | {"mamba_d_ssm": None},
    "gemma4": lambda c: without(c, "per_layer_config") | {"global_head_dim": 128},
    "gemma4-moe": lambda c: without(c, "per_layer_config", "rope_parameters") | {
        "global_head_dim": 128, "num_global_key_value_heads": 1},
    "deepseek2": lambda c: with_old_keys(c) | {
        "scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1},
    "deepseek2-lite": lambda c: with_old_keys(c) | {"n_group": 1, "topk_group": 1},
    "glm4moe-lite": lambda c: without(c, "mlp_layer_types") | {"first_k_dense_replace": 1}}


@pytest.mark.parametrize("name", OLDER)
def test_other_statements_of_settings_give_the_bits_of_the_file(name, tmp_path):
    config = OLDER[name](write_folder.config(name))
    folder = write_folder.write(MODELS[name], tmp_path / "folder", config)
    assert same_logits(MODELS[name], folder, tmp_path)


OF_IMAGES = {"vision_tower.vision_model.embeddings.weight": np.zeros((2, 2), np.float32)}
# A convolution of images over time, and a layer that drafts.
OF_QWEN = {"model.visual.patch_embed.proj.weight": np.zeros((2, 3, 2, 2, 2), np.float32),
           "mtp.layers.0.input_layernorm.weight": np.zeros(64, np.float32),
           "mtp.fc.weight": np.zeros((64, 128), np.float32)}
# Limits of clipped values, which are single numbers.
OF_GEMMA4 = {"model.vision_tower.encoder.layers.0.mlp.up_proj.input_max": np.float32(1).reshape(()),
             "model.audio_tower.subsample.conv.weight": np.zeros((2, 3, 2, 2), np.float32),
             "model.embed_vision.embedding_projection.weight": np.zeros((2, 2), np.float32)}
SENSES = {
    "gemma3": ("Gemma3ForConditionalGeneration", "language_model.model.", OF_IMAGES),
    "qwen35": ("Qwen3_5ForConditionalGeneration", "model.language_model.", OF_QWEN),
    "qwen35moe": ("Qwen3_5MoeForConditionalGeneration", "model.language_model.", OF_QWEN),
    "gemma4": ("Gemma4ForConditionalGeneration", "model.language_model.", OF_GEMMA4),
    "gemma4-moe": ("Gemma4ForConditionalGeneration", "model.language_model.", OF_GEMMA4),
    "mistral4": ("Mistral3ForConditionalGeneration", "language_model.model.", OF_IMAGES)}


@pytest.mark.parametrize("name", SENSES)
def test_a_model_of_several_senses_gives_the_bits_of_its_text(name, tmp_path):
    """Its configuration and tensors stand beside those of images."""
    class_name, prefix, others = SENSES[name]
    text = without(write_folder.config(name), "architectures")
    config = {"architectures": [class_name], "text_config": text,
              "vision_config": {"hidden_size": 8}, "model_type": "of several senses"}
    tensors = {tensor.replace("model.", prefix, 1): values
               for tensor, values in checkpoint.saved(MODELS[name]).items()}
    folder = write_folder.write(MODELS[name], tmp_path / "folder", config, tensors | others)
    assert same_logits(MODELS[name], folder, tmp_path)


def test_gemma_4_without_a_tower_gives_the_bits_of_its_text(tmp_path):
    """A class of its own, whose images are patches of the text model."""
    model = MODELS["gemma4"]
    config = write_folder.config("gemma4") | {
        "architectures": ["Gemma4UnifiedForConditionalGeneration"],
        "use_bidirectional_attention": "vision"}
    tensors = checkpoint.saved(model) | {
        "model.vision_embedder.patch_dense.weight": np.zeros((2, 2), np.float32)}
    folder = write_folder.write(model, tmp_path / "folder", config, tensors)
    assert same_logits(model, folder, tmp_path)


def test_stacked_experts_give_the_bits_of_the_file(tmp_path):
    """Newer folders have them as the class has."""
    model = MODELS["qwen35moe"]
    folder = write_folder.write(model, tmp_path / "folder",
                                tensors=checkpoint.parameters(model))
    assert same_logits(model, folder, tmp_path)


def test_granite_without_states_gives_the_bits_of_its_file(tmp_path):
    """A model of granitehybrid's class that only attends is granite."""
    model = MODELS["granite"]
    layers = model.sizes.layers
    config = write_folder.config("granite") | {
        "architectures": ["GraniteMoeHybridForCausalLM"], "num_local_experts": 0,
        "num_experts_per_tok": 0, "shared_intermediate_size": model.sizes.ffn,
        "intermediate_size": 1, "position_embedding_type": "rope",
        "layer_types": ["attention"] * layers}
    tensors = checkpoint.saved(model)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        gate, up, down = (tensors.pop(f"{prefix}mlp.{x}_proj.weight")
                          for x in ("gate", "up", "down"))
        tensors |= {f"{prefix}shared_mlp.input_linear.weight": np.concatenate([gate, up]),
                    f"{prefix}shared_mlp.output_linear.weight": down}
    folder = write_folder.write(model, tmp_path / "folder", config, tensors)
    assert same_logits(model, folder, tmp_path)


def test_other_weights_give_other_logits(tmp_path):
    """So the comparison above can fail."""
    tensors = checkpoint.saved(MODELS["llama"])
    tensors["model.layers.3.self_attn.q_proj.weight"] = \
        tensors["model.layers.3.self_attn.q_proj.weight"][::-1]
    folder = write_folder.write(MODELS["llama"], tmp_path / "folder", tensors=tensors)
    assert not same_logits(MODELS["llama"], folder, tmp_path)
