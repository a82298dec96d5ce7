"""`millrace convert` of a folder of a hub writes the tensors that it writes of the same model's
file, and metadata that an engine reads."""
import pathlib
import sys

import gguf
import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e/client")]
from models import MODELS  # noqa: E402
from programs import millrace  # noqa: E402
import write_folder  # noqa: E402
import write_gguf  # noqa: E402

TYPES = {"llama": ["F32", "Q8_0", "Q4_K_M"], "qwen3moe": ["Q8_0", "Q5_0"], "gpt-oss": ["BF16"]}


def converted(source, target, mix):
    done = millrace("convert", source, "-o", target, "--type", mix)
    assert done.returncode == 0, done.stderr
    return {tensor.name: tensor for tensor in gguf.GGUFReader(target).tensors}


@pytest.mark.parametrize("name, mix", [(name, mix) for name in TYPES for mix in TYPES[name]])
def test_a_folder_becomes_the_tensors_of_the_file(name, mix, tmp_path):
    folder = write_folder.write(MODELS[name], tmp_path / "folder")
    file = write_gguf.write(MODELS[name], tmp_path / "file.gguf")
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
