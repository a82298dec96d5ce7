"""`millrace convert` of a folder of a hub writes the tensors that it writes of the same model's
file, and metadata that an engine reads."""
import pathlib
import sys

import gguf
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e/client")]
import checkpoint  # noqa: E402
from models import MODELS  # noqa: E402
from programs import millrace  # noqa: E402
import write_folder  # noqa: E402
import write_gguf  # noqa: E402

# Those whose tensors are changed the most.
CHANGED = ["qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "mamba2", "granitehybrid",
           "granitehybrid-moe", "nemotron_h", "nemotron_h_moe", "falcon-h1", "gemma4", "gemma4-moe",
           "deepseek2", "deepseek2-lite", "glm4moe-lite", "mistral4"]
TYPES = dict.fromkeys(CHANGED, ["F32"]) | {
    "llama": ["F32", "Q8_0", "Q4_K_M"], "qwen3moe": ["Q8_0", "Q5_0"], "gpt-oss": ["BF16"],
    "qwen35": ["F32", "Q8_0"], "deepseek2": ["F32", "Q8_0"]}


def converted(source, target, mix):
    done = millrace("convert", source, "-o", target, "--type", mix)
    assert done.returncode == 0, done.stderr
    return {tensor.name: tensor for tensor in gguf.GGUFReader(target).tensors}


@pytest.mark.parametrize("name, mix", [(name, mix) for name in TYPES for mix in TYPES[name]])
def test_a_folder_becomes_the_tensors_of_the_file(name, mix, tmp_path):
    folder = write_folder.write(MODELS[name], tmp_path / "folder")
    file = write_gguf.write(checkpoint.Rounded(MODELS[name]), tmp_path / "file.gguf")
    of_folder = converted(folder, tmp_path / "a.gguf", mix)
    of_file = converted(file, tmp_path / "b.gguf", mix)
    assert of_folder.keys() == of_file.keys()
    for tensor in of_folder.values():
        other = of_file[tensor.name]
        assert (tensor.tensor_type, list(tensor.shape)) == (other.tensor_type, list(other.shape))
        assert np.array_equal(tensor.data, other.data), tensor.name
    said = millrace("tokenize", "--model", tmp_path / "a.gguf", text="the thing\n")
    assert said.returncode == 0 and said.stdout == \
        millrace("tokenize", "--model", folder, text="the thing\n").stdout, said.stderr


def test_a_quantized_folder_is_not_quantized_again(tmp_path):
    """Its matrices are decoded to BF16, which says nothing of what was lost before."""
    name = "model.layers.0.mlp.down_proj.weight"
    tensors = checkpoint.saved(MODELS["llama"])
    shape = tensors[name].shape
    tensors |= {name: ("F8_E4M3", np.zeros(shape, "u1")),
                f"{name}_scale_inv": np.ones((1, 1), np.float32)}
    settings = write_folder.config("llama") | {
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    folder = write_folder.write(MODELS["llama"], tmp_path / "folder", settings, tensors)
    done = millrace("convert", folder, "-o", tmp_path / "a.gguf", "--type", "Q8_0")
    assert done.returncode != 0 and "comes from a model quantized by fp8" in done.stderr
    assert "--allow-requantize" in done.stderr and not (tmp_path / "a.gguf").exists()
    for words in ["BF16"], ["Q8_0", "--allow-requantize"]:
        done = millrace("convert", folder, "-o", tmp_path / f"{words[0]}.gguf", "--type", *words)
        assert done.returncode == 0, done.stderr
