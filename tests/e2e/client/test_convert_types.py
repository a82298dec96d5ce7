"""`millrace convert` gives each tensor the type that llama.cpp's quantizer gives it, and the same
bytes where a type has one encoding."""
import json

import gguf
import llama_quantizer
import numpy as np
import pytest
import quantized_models
from programs import millrace

KEPT = json.loads(quantized_models.KEPT.read_text())


def converted(source, target, mix):
    done = millrace("convert", source, "-o", target, "--type", mix)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module", params=quantized_models.MODELS)
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / f"{request.param}.gguf"
    return request.param, quantized_models.write(request.param, path)


def test_each_tensor_has_the_type_that_llama_cpp_gives_it(model, tmp_path):
    name, source = model
    assert list(KEPT[name]) == list(quantized_models.MIXES)
    for mix, wanted in KEPT[name].items():
        target = converted(source, tmp_path / f"{mix}.gguf", mix)
        assert quantized_models.types(target) == wanted, mix
        reader = gguf.GGUFReader(target)
        number = gguf.LlamaFileType[quantized_models.MIXES[mix]]
        assert reader.get_field("general.file_type").contents() == number
        assert reader.get_field("general.quantization_version").contents() == 2


@pytest.mark.long
def test_llama_cpps_types_are_those_noted(model):
    assert quantized_models.llama_cpps_types(model[0]) == KEPT[model[0]]


@pytest.mark.long
@pytest.mark.parametrize("mix", ["F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"])
def test_tensors_of_types_with_one_encoding_have_llama_cpps_bytes(model, mix, tmp_path):
    name, source = model
    ours = gguf.GGUFReader(converted(source, tmp_path / "ours.gguf", mix))
    llama_quantizer.quantize(source, tmp_path / "theirs.gguf",
                             gguf.LlamaFileType[quantized_models.MIXES[mix]])
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "theirs.gguf").tensors}
    same = {"F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0"}
    compared = 0
    for tensor in ours.tensors:
        assert tensor.tensor_type == theirs[tensor.name].tensor_type
        if tensor.tensor_type.name in same:
            assert np.array_equal(tensor.data, theirs[tensor.name].data), tensor.name
            compared += 1
    assert compared > len(ours.tensors) / 2
