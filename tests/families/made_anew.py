"""Makes the tiny models by the ecosystem's own means and compares them with ours. ops/test --long
runs this in an environment of its own, because it needs torch (requirements.txt).

The official class saves the model, and the converter of llama.cpp, whose folder $LLAMA_CPP names,
makes a GGUF file of it. The file must hold what write_gguf.py writes, and the logits computed anew
must be the golden ones. llama.cpp must be as far from them as golden/llama_cpp.json says.
"""
import json
import os
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
LLAMA_CPP = pathlib.Path(os.environ["LLAMA_CPP"])
os.environ["HF_HUB_OFFLINE"] = "1"  # everything is local
sys.path[:0] = [str(HERE), str(LLAMA_CPP / "gguf-py"), str(LLAMA_CPP)]
import gguf  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from conversion import (ModelBase, ModelType, TextModel, get_model_architecture,  # noqa: E402
                        get_model_class)

import hugging_face  # noqa: E402
import hugging_face_recurrent  # noqa: E402
import llama_cpp  # noqa: E402
import write_gguf  # noqa: E402
from models import (  # noqa: E402
    COLUMNS, EPSILON, GRANITE_LAYERS, MODELS, NEMOTRON_LAYERS, VOCABULARY)
from variants import VARIANTS  # noqa: E402

# What a file says of itself may differ: its name, its sizes, the version of its format.
SAID = ("general.", "GGUF.")
# The keys that only we write: the converter leaves out the window of Mistral's first models.
# Nor does it write the temperature of Mistral 4, which it writes for Mistral's own checkpoints.
OURS_ALONE = {"mistral": {"llama.attention.sliding_window"},
              "mistral4": {"mistral4.attention.temperature_scale",
                           "mistral4.attention.temperature_length"}}
# What the classes' saved configurations leave out, although the checkpoints in use have it.
CONFIGURED = {
    "minimax-m2": {"scoring_func": "sigmoid"}, "deepseek2": {"scoring_func": "sigmoid"},
    "deepseek2-lite": {"scoring_func": "softmax"},
    "glm4moe-lite": {"scoring_func": "sigmoid", "first_k_dense_replace": 1},
    # The converter knows it as a part of a model that sees.
    "mistral4": {"scoring_func": "softmax",
                 "architectures": ["Mistral3ForConditionalGeneration"]}} | {
    name: {"layer_types": hugging_face_recurrent.layer_types(
        GRANITE_LAYERS, a="attention", m="mamba")}
    for name in ("granitehybrid", "granitehybrid-moe")} | {
    # Of a type that no class has, so that the class's experts are not added to what is saved.
    "nemotron_h": {"model_type": "nemotron_h_dense", "hybrid_override_pattern": NEMOTRON_LAYERS,
                   "num_experts_per_tok": None, "n_routed_experts": None, "n_group": None,
                   "topk_group": None, "norm_eps": EPSILON}}


def save_tokenizer(folder):
    """The vocabulary that write_gguf.py writes."""
    characters = write_gguf.byte_characters()
    vocabulary = {c: i for i, c in enumerate([*characters, "th", "in"])}
    vocabulary |= {f"<w{i}>": i for i in range(258, VOCABULARY - 4)}
    model = tokenizers.models.BPE(vocab=vocabulary, merges=[("t", "h"), ("i", "n")])
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>").save_pretrained(folder)


def convert(model, folder, **options):
    """The path of the file that the converter makes."""
    hugging_face.float32_network(model).save_pretrained(folder)
    save_tokenizer(folder)
    config = folder / "config.json"
    saved = json.loads(config.read_text()) | CONFIGURED.get(model.name, {})
    config.write_text(json.dumps({key: value for key, value in saved.items() if value is not None}))
    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False),
                                                  ModelType.TEXT))
    kind.set_vocab = lambda self: self._set_vocab_gpt2()  # and not that of the family
    kind.no_mtp = True
    path = folder / "made.gguf"
    with torch.inference_mode():
        kind(folder, gguf.LlamaFileType.ALL_F32, path, eager=True, **options).write()
    return path


def contents(path):
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()}
    return keys, {t.name: np.array(t.data) for t in reader.tensors}


@pytest.fixture(autouse=True)
def known_tokenizer(monkeypatch):
    monkeypatch.setattr(TextModel, "get_vocab_base_pre", lambda self, tokenizer: "gpt-2")


@pytest.mark.parametrize("name", MODELS)
def test_the_converter_makes_the_same_file(name, tmp_path):
    expect_same_files(name, MODELS[name], tmp_path)


def test_the_converter_makes_the_same_fused_matrices(tmp_path):
    name, variant = VARIANTS["qwen3moe-fused"]
    expect_same_files(name, variant, tmp_path, fuse_qkv=True)


def expect_same_files(name, ours, tmp_path, **options):
    folder = tmp_path / "tiny"  # the converter takes certain names of folders for certain models
    folder.mkdir()
    keys, tensors = contents(convert(MODELS[name], folder, **options))
    our_keys, our_tensors = contents(write_gguf.write(ours, tmp_path / "ours.gguf"))

    assert our_tensors.keys() == tensors.keys()
    for tensor, values in tensors.items():
        found = our_tensors[tensor]
        assert found.shape == values.shape and found.dtype == values.dtype, tensor
        if tensor.startswith("rope_") or tensor.endswith("ssm_a"):  # computed in other ways
            assert np.allclose(found, values, rtol=1e-6), tensor
        else:
            assert np.array_equal(found, values), tensor

    for key in keys.keys() | our_keys.keys():
        if key.startswith(SAID):
            continue
        if key in OURS_ALONE.get(name, ()):
            assert key not in keys
            continue
        wanted = keys.get(key)
        if isinstance(wanted, float):
            wanted = pytest.approx(wanted, rel=1e-6)
        assert our_keys.get(key) == wanted, key
    assert our_keys["general.architecture"] == keys["general.architecture"]


def expect_golden(name, path, changes=None):
    anew = hugging_face.logits(MODELS[name], MODELS[name].prompt(), changes)
    kept = np.load(HERE / "golden" / path)
    # The golden ones are rounded to float32.
    assert np.abs(anew[:, COLUMNS] - kept).max() <= 1e-6 * np.abs(kept).max()


@pytest.mark.parametrize("name", MODELS)
def test_the_golden_logits_are_those_of_the_class(name):
    expect_golden(name, f"{name}.npy")


@pytest.mark.parametrize("name", hugging_face.AS_LLAMA_CPP)
def test_so_are_those_of_what_llama_cpp_computes(name):
    expect_golden(name, f"as-llama.cpp/{name}.npy", hugging_face.AS_LLAMA_CPP[name])


@pytest.mark.parametrize("name", MODELS)
def test_llama_cpp_is_as_far_away_as_it_was(name):
    """Another processor sums in another order, which moves the differences a little."""
    kept = json.loads(llama_cpp.FIGURES.read_text())[name]
    for option, figures in llama_cpp.figures(name).items():
        for what, value in figures.items():
            assert 0.5 * kept[option][what] <= value <= 2 * kept[option][what], (option, what)
