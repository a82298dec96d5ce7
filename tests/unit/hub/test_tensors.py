"""Tensors of folders that the tiny models do not have: biases of queries and keys that are
reordered, those that are left out, and factors that round."""
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


def bfloat16(values):
    """Rounds to the nearest, to even: the bits."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


FACTORS = {"attention_in_multiplier": 0.3, "key_multiplier": 0.7, "ssm_in_multiplier": 1.1,
           "ssm_multipliers": [0.9, 1.3, 0.6, 1.7, 0.35]}


def test_factors_are_rounded_to_the_type_of_the_matrix(tmp_path):
    model = MODELS["falcon-h1"]
    tensors = checkpoint.saved(model)
    key, into = "model.layers.1.self_attn.k_proj.weight", "model.layers.1.mamba.in_proj.weight"
    given = {name: RANDOM.normal(size=tensors[name].shape) for name in (key, into)}
    halves = given[into].astype("<f2")
    brains = bfloat16(given[key].astype(np.float32))
    config = write_folder.config("falcon-h1") | FACTORS
    folder = write_folder.write(model, tmp_path / "folder", config, tensors | {
        key: ("BF16", brains), into: ("F16", halves)})
    read = probe(folder, tmp_path)[1]

    exact = (brains.astype(np.uint32) << 16).view(np.float32)
    wanted = bfloat16(exact * np.float32(0.7) * np.float32(0.3))
    kind, values = read["blk.1.attn_k.weight"]
    assert kind == "BF16"
    assert np.array_equal(values, (wanted.astype(np.uint32) << 16).view(np.float32))

    rows = np.repeat(np.float32(FACTORS["ssm_multipliers"]), [128, 128, 64, 64, 8])[:, None]
    wanted = (halves.astype(np.float32) * np.float32(1.1) * rows).astype("<f2")
    kind, values = read["blk.1.ssm_in.weight"]
    assert kind == "F16" and np.array_equal(values, wanted.astype(np.float32))


def test_a_tied_matrix_has_the_factor_of_each_of_its_uses(tmp_path):
    model = MODELS["falcon-h1"]
    tensors = checkpoint.saved(model)
    embedding = tensors["model.embed_tokens.weight"]
    config = write_folder.config("falcon-h1") | {"tie_word_embeddings": True}
    folder = write_folder.write(model, tmp_path / "folder", config, {
        name: values for name, values in tensors.items() if name != "lm_head.weight"})
    read = probe(folder, tmp_path)[1]
    assert np.array_equal(read["token_embd.weight"][1], embedding * np.float32(2.0))
    assert np.array_equal(read["output.weight"][1], embedding * np.float32(0.5))


def test_vectors_of_states_are_read_from_other_types(tmp_path):
    """Decays and steps become F32 and are then changed and ordered."""
    model = MODELS["qwen35"]
    tensors, wanted = checkpoint.saved(model), {}
    for short, ours in (("A_log", "ssm_a"), ("dt_bias", "ssm_dt.bias")):
        name = f"model.layers.0.linear_attn.{short}"
        bits = bfloat16(tensors[name])
        values = (bits.astype(np.uint32) << 16).view(np.float32).reshape(2, 4).T.reshape(-1)
        tensors[name] = "BF16", bits
        wanted[f"blk.0.{ours}"] = -np.exp(values.astype(float)) if ours == "ssm_a" else values
    read = probe(write_folder.write(model, tmp_path / "folder", tensors=tensors), tmp_path)[1]
    for name, values in wanted.items():
        assert read[name][0] == "F32" and np.array_equal(read[name][1], np.float32(values)), name


def test_granite_that_attends_only_may_have_experts(tmp_path):
    """A class of hybrids is granitemoe then, with an expert of all tokens."""
    model = MODELS["granitemoe"]
    config = write_folder.config("granitemoe") | {
        "architectures": ["GraniteMoeHybridForCausalLM"], "position_embedding_type": "rope",
        "shared_intermediate_size": 96, "layer_types": ["attention"] * model.sizes.layers}
    shared = {"input_linear": (192, 128), "output_linear": (128, 96)}
    tensors = checkpoint.saved(model) | {
        f"model.layers.{layer}.shared_mlp.{name}.weight": np.zeros(shape, np.float32)
        for layer in range(model.sizes.layers) for name, shape in shared.items()}
    said, read = probe(write_folder.write(model, tmp_path / "folder", config, tensors), tmp_path)
    assert said["keys"]["general.architecture"] == "granitemoe"
    assert said["keys"]["granitemoe.expert_shared_feed_forward_length"] == 96
    assert said["keys"]["granitemoe.rope.scaling.finetuned"]
    assert read["blk.0.ffn_gate_shexp.weight"][1].shape == (96, 128)


def test_the_marks_of_gemma_4_are_text(tmp_path):
    folder = write_folder.write(MODELS["gemma4"], tmp_path / "folder")
    tokenizer = write_folder.tokenizer_json()
    place = len(tokenizer["model"]["vocab"]) - 1
    text = list(tokenizer["model"]["vocab"])[place]
    del tokenizer["model"]["vocab"][text]
    tokenizer["added_tokens"].insert(0, {"id": place, "content": "<|channel>", "special": True})
    write_folder.write_json(folder / "tokenizer.json", tokenizer)
    kinds = probe(folder, tmp_path)[0]["keys"]["tokenizer.ggml.token_type"]
    user_defined, control = 4, 3
    assert kinds[place] == user_defined and kinds[place + 1] == control
