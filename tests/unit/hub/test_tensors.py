"""Tensors of folders that the tiny models do not have: biases of queries and keys that are
reordered, and those that are left out."""
import numpy as np

from folders import MODELS, checkpoint, probe, write_folder

RANDOM = np.random.default_rng(9)


def test_biases_are_reordered_like_rows(tmp_path):
    model = MODELS["llama"]
    tensors, wanted = checkpoint.saved(model), {}
    for name, heads in (("q", model.sizes.heads), ("k", model.sizes.kv_heads), ("v", None)):
        size = (heads or model.sizes.kv_heads) * model.sizes.head_dim
        bias = RANDOM.normal(size=size).astype(np.float32)
        tensors[f"model.layers.1.self_attn.{name}_proj.bias"] = bias
        pairs = bias if heads is None else bias.reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)
        wanted[f"blk.1.attn_{name}.bias"] = pairs
    folder = write_folder.write(model, tmp_path / "folder", tensors=tensors)
    read = probe(folder, tmp_path)[1]
    for name, values in wanted.items():
        assert np.array_equal(read[name][1], values), name


def test_what_no_text_needs_is_left_out(tmp_path):
    model = MODELS["llama"]
    folder = write_folder.write(model, tmp_path / "folder")
    plain = set(probe(folder, tmp_path)[1])
    more = {name: np.zeros((2, 2), np.float32) for name in (
        "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.4.eh_proj.weight",
        "model.vision_tower.patch.weight", "multi_modal_projector.linear.weight",
        "model.layers.0.self_attn.k_proj.k_scale")}
    folder = write_folder.write(model, tmp_path / "folder", tensors=checkpoint.saved(model) | more)
    assert set(probe(folder, tmp_path)[1]) == plain
