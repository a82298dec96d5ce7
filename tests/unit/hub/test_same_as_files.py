"""A folder of each tiny model has the tensors of its file, bit for bit, and the keys that are read.

Logits alone would not show a key that only other programs read, once the model is converted.
"""
import numpy as np
import pytest

from folders import MODELS, checkpoint, probe, write_folder

# What a file leaves out because its architecture or its other keys imply it.
IMPLIED = {"vocab_size", "attention.key_length", "attention.value_length", "attention.scale",
           "attention.sliding_window_pattern", "rope.dimension_count", "rope.freq_base",
           "expert_weights_norm", "expert_weights_scale", "expert_gating_func"}
# What the converter writes, and nothing reads: heads that do not rotate, experts that are not
# there, a latent that queries do not have.
UNREAD = {"nemotron_h": {"attention.layer_norm_rms_epsilon", "rope.scaling.finetuned",
                         "rope.dimension_count"},
          "nemotron_h_moe": {"rope.scaling.finetuned", "rope.dimension_count"},
          "granitehybrid": {"expert_count", "expert_used_count",
                            "expert_shared_feed_forward_length"},
          "deepseek2-lite": {"attention.q_lora_rank"}, "cohere2": {"rope.scaling.type"},
          "minimax-m2": {"expert_feed_forward_length"}}
NAMES = sorted(path.stem for path in write_folder.CONFIGS.glob("*.json"))


def without_architecture(keys):
    return {key.partition(".")[2]: value for key, value in keys.items()
            if not key.startswith(("general.", "tokenizer."))}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_as_its_file(name, tmp_path):
    model = checkpoint.Rounded(MODELS[name])
    said, tensors = probe(write_folder.write(MODELS[name], tmp_path / "folder"), tmp_path)
    wanted = model.tensors()
    assert tensors.keys() == wanted.keys()
    for tensor, values in wanted.items():
        found = tensors[tensor][1]
        assert found.shape == values.shape and np.array_equal(found, values), tensor

    assert said["keys"]["general.architecture"] == model.arch
    keys = without_architecture(said["keys"])
    of_file = without_architecture(model.metadata())
    assert keys.keys() - of_file.keys() <= IMPLIED
    assert of_file.keys() - keys.keys() <= UNREAD.get(name, set())
    for key in keys.keys() & of_file.keys():
        value = of_file[key]
        wanted_value = pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
        assert keys[key] == wanted_value, key


def test_every_model_has_a_folder():
    assert set(NAMES) == set(MODELS)
