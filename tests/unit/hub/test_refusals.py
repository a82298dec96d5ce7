"""What is wrong with a folder is refused by name, and the error says where and what to do."""
import json

import numpy as np
import pytest

from folders import MODELS, checkpoint, probe, refusal, write_folder

MODEL = "llama"
PLACE = "model.layers.2.mlp.up_proj.weight"
INDEX = "model.safetensors.index.json"


def folder_of(tmp_path, name=MODEL, tensors=None, shards=1, drop=(), **settings):
    config = write_folder.config(name) | settings
    config = {key: value for key, value in config.items() if key not in drop}
    return write_folder.write(MODELS[name], tmp_path / "folder", config, tensors, shards)


def change(path, **values):
    write_folder.write_json(path, json.loads(path.read_text()) | values)


def expect(folder, tmp_path, code, *words):
    got, text = refusal(folder, tmp_path)
    assert got == code and all(word in text for word in words), f"{got}: {text}"


def test_the_folders_of_these_tests_can_be_read(tmp_path):
    assert len(probe(folder_of(tmp_path), tmp_path)[1]) > 30


@pytest.mark.parametrize("name, words", [
    ("config.json", "has no config.json"), ("tokenizer.json", "has no tokenizer.json"),
    ("model.safetensors", "has neither model.safetensors nor")])
def test_a_file_is_missing(name, words, tmp_path):
    folder = folder_of(tmp_path)
    (folder / name).unlink()
    expect(folder, tmp_path, "folder_unreadable", words, str(folder))


def test_other_weights_are_named(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    expect(folder, tmp_path, "folder_unreadable", "it has pytorch_model.bin, which is not read")


def test_a_shard_is_missing(tmp_path):
    folder = folder_of(tmp_path, shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    expect(folder, tmp_path, "folder_unreadable", "model-00002-of-00003.safetensors")


@pytest.mark.parametrize("places, words", [
    ({PLACE + "x": "model-00001-of-00002.safetensors"}, f"names the tensor '{PLACE}x'"),
    ({PLACE: "../elsewhere.safetensors"}, "outside the folder"), ({PLACE: 7}, "wanted text")])
def test_the_index_is_wrong(places, words, tmp_path):
    folder = folder_of(tmp_path, shards=2)
    index = json.loads((folder / INDEX).read_text())
    write_folder.write_json(folder / INDEX, {"weight_map": index["weight_map"] | places})
    expect(folder, tmp_path, "folder_malformed", INDEX, words)


def test_the_index_is_empty_or_no_json(tmp_path):
    folder = folder_of(tmp_path, shards=2)
    write_folder.write_json(folder / INDEX, {"weight_map": {}})
    expect(folder, tmp_path, "folder_malformed", INDEX, "names no tensors")
    (folder / INDEX).write_text("{")
    expect(folder, tmp_path, "folder_malformed", INDEX, "is not a JSON object")


def test_two_shards_have_one_tensor(tmp_path):
    folder = folder_of(tmp_path, shards=2)
    first = folder / "model-00001-of-00002.safetensors"
    (folder / "model-00002-of-00002.safetensors").write_bytes(first.read_bytes())
    expect(folder, tmp_path, "folder_malformed", "of another shard")


def test_the_weights_are_cut_short(tmp_path):
    folder = folder_of(tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    expect(folder, tmp_path, "folder_malformed", "model.safetensors", "cut short")


@pytest.mark.parametrize("settings, code, words", [
    ({"architectures": ["MambaForCausalLM"]}, "unsupported_architecture", "'MambaForCausalLM'"),
    ({"architectures": []}, "unsupported_architecture", "class of models ''"),
    ({"architectures": "Llama"}, "folder_malformed", "'architectures'"),
    ({"num_hidden_layers": None}, "folder_malformed", "'num_hidden_layers' is absent"),
    ({"num_hidden_layers": "four"}, "folder_malformed", "wanted a whole number"),
    ({"num_hidden_layers": 3.5}, "folder_malformed", "wanted a whole number"),
    ({"hidden_size": -1}, "folder_malformed", "wanted a whole number"),
    ({"rms_norm_eps": None}, "gguf_malformed", "layer_norm_rms_epsilon"),
    ({"hidden_act": "relu"}, "unsupported_architecture", "hidden_act = relu"),
    ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "unsupported_architecture",
     "type 'dynamic'"),
    ({"rope_parameters": {"rope_type": "linear"}}, "folder_malformed", "'factor' is absent"),
    ({"rope_parameters": {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}},
     "unsupported_architecture", "a longrope of 1 factors"),
    ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": False}},
     "unsupported_architecture", "truncate"),
    ({"tie_word_embeddings": 1}, "folder_malformed", "wanted true or false"),
    ({"num_local_experts": 4_000_000_000}, "folder_malformed", "claims 4000000000 experts"),
    ({"vocab_size": 4_000_000_000}, "folder_malformed", "a model of 4000000000 tokens"),
    ({"head_dim": 4_000_000_000}, "unsupported_architecture", "a head of 4000000000 channels"),
    ({"quantization_config": {"quant_method": "bitsandbytes"}}, "unsupported_quantization",
     "'bitsandbytes'"),
    ({"quantization_config": {}}, "folder_malformed", "'quant_method' is absent"),
    ({"quantization_config": {"quant_method": "compressed-tensors", "format": "marlin-24"}},
     "unsupported_quantization", "'marlin-24'"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "unsupported_quantization",
     "3 bits"),
    ({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
                              "config_groups": {"a": {}, "b": {}}}},
     "unsupported_quantization", "2 config_groups"),
])
def test_config_json(settings, code, words, tmp_path):
    expect(folder_of(tmp_path, **settings), tmp_path, code, words)


@pytest.mark.parametrize("name, settings, words", [
    ("qwen3moe", {"mlp_only_layers": [1]}, "experts in only some layers"),
    ("smollm3", {"no_rope_layers": [1] * 8}, "no_rope_layers"),
    ("ernie4_5-moe", {"moe_layer_end_index": 2}, "moe_layer_end_index"),
    ("gpt-oss", {"rope_parameters": {"rope_type": "yarn", "factor": 32.0, "truncate": True}},
     "truncate"),
    ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention = true"),
    ("gemma2", {"query_pre_attn_scalar": 100}, "attention.scale"),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 16}, "sliding window in only some"),
    ("qwen35", {"layer_types": ["mamba2x"] * 8}, "a layer of the kind 'mamba2x'"),
    ("qwen35", {"layer_types": ["tion"] * 8}, "a layer of the kind 'tion'"),
    ("qwen35", {"attn_output_gate": False}, "attn_output_gate = false"),
    ("lfm2", {"conv_bias": True}, "conv_bias = true"),
    ("lfm2moe", {"use_expert_bias": False}, "use_expert_bias = false"),
    ("mamba2", {"use_conv_bias": False}, "use_conv_bias = false"),
    ("mamba2", {"time_step_limit": [0.001, 0.1]}, "time_step_limit other than 0 to infinity"),
    ("granitehybrid", {"mamba_conv_bias": False}, "mamba_conv_bias = false"),
    ("nemotron_h", {"mlp_hidden_act": "silu"}, "hidden_act = silu"),
    ("nemotron_h", {"mamba_hidden_act": "gelu"}, "mamba_hidden_act = gelu"),
    ("nemotron_h", {"layers_block_type": list("MEM*M-*E")}, "both with and without experts"),
    ("nemotron_h_moe", {"moe_latent_size": 32}, "moe_latent_size"),
    ("falcon-h1", {"mamba_rms_norm": True}, "mamba_norm_before_gate = true"),
    ("gemma4", {"use_bidirectional_attention": "all"}, "use_bidirectional_attention = all"),
    ("gemma4", {"per_layer_config": {"0": {"head_dim": 128}}}, "layer 0, which is no global one"),
    ("gemma4", {"per_layer_config": {"2": {"head_dim": 128}}}, "only some global layers"),
    ("gemma4", {"per_layer_config": {"2": {"sliding_window": 8}}}, "per_layer_config: sliding"),
    ("gemma4", {"per_layer_config": {"2": {"head_dim": 128}, "5": {"head_dim": 64}}},
     "layers that differ"),
    ("gemma4", {"per_layer_config": {"2x": {"head_dim": 128}}}, "layer 2x, which is no global"),
    ("qwen35", {"rope_parameters": {"mrope_section": [1] * 5}}, "mrope_section"),
    ("mistral4", {"rope_parameters": None}, "a rope of the type 'default'"),
    ("deepseek2", {"rope_interleave": False}, "rope_interleave = false"),
    ("deepseek2", {"moe_layer_freq": 2}, "moe_layer_freq"),
    ("deepseek2", {"scoring_func": "sqrtsoftplus"}, "scoring_func = sqrtsoftplus"),
    ("deepseek2-lite", {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
     "ranked by their best expert alone"),
    ("glm4moe-lite", {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]},
     "experts before a dense layer")])
def test_settings_that_the_engine_does_not_have(name, settings, words, tmp_path):
    expect(folder_of(tmp_path, name, **settings), tmp_path, "unsupported_architecture", words)


@pytest.mark.parametrize("name, settings, words", [
    ("qwen35", {"layer_types": ["full_attention"] * 7}, "has 7 kinds of layers for 8 layers"),
    ("qwen35", {"layer_types": None, "full_attention_interval": 0}, "interval = 0"),
    ("lfm2", {"layer_types": None}, "'layer_types' is absent"),
    ("qwen35", {"linear_num_value_heads": 4_000_000_000, "linear_value_head_dim": 0},
     "does not fit the sizes"),
    ("lfm2", {"block_auto_adjust_ff_dim": True, "block_multiple_of": 0}, "block_multiple_of"),
    ("gemma4", {"layer_types": None, "num_hidden_layers": 4_000_000_000}, "4000000000 layers"),
    ("granitehybrid", {"mamba_d_head": 16, "mamba_d_ssm": 256}, "8 Mamba heads of 16 channels"),
    ("falcon-h1", {"ssm_multipliers": [1.0, 2.0]}, "ssm_multipliers holds 2 values, wanted 5"),
    ("falcon-h1", {"mlp_multipliers": [1.0]}, "mlp_multipliers holds 1 values, wanted 2")])
def test_settings_that_contradict(name, settings, words, tmp_path):
    expect(folder_of(tmp_path, name, **settings), tmp_path, "folder_malformed", words)


def zeros(*shape):
    return np.zeros(shape, np.float32)


LAYER = "model.layers.0."


@pytest.mark.parametrize("name, tensor, values", [
    ("qwen35", f"{LAYER}linear_attn.in_proj_qkv.weight", zeros(383, 64)),
    ("qwen35", f"{LAYER}linear_attn.dt_bias", zeros(9)),
    ("qwen35", f"{LAYER}linear_attn.out_proj.weight", zeros(64, 250)),
    ("qwen35", f"{LAYER}linear_attn.conv1d.weight", zeros(384, 2, 4)),
    ("qwen3next", f"{LAYER}linear_attn.in_proj_qkvz.weight", zeros(641, 64)),
    ("mamba2", "backbone.layers.0.mixer.norm.weight", zeros(127)),
    ("falcon-h1", f"{LAYER}mamba.in_proj.weight", zeros(391, 64)),
    ("deepseek2", f"{LAYER}self_attn.kv_b_proj.weight", zeros(255, 32))])
def test_tensors_that_do_not_fit_the_settings(name, tensor, values, tmp_path):
    expect(folder_of(tmp_path, name, changed_tensors(name, **{tensor: values})), tmp_path,
           "folder_malformed", tensor, "does not fit the sizes in config.json")


def class_of(name):
    return write_folder.config(name)["architectures"][0]


@pytest.mark.parametrize("name, tensor", [
    ("qwen35", f"{LAYER}linear_attn.in_proj_qkvz.weight"),
    ("qwen3next", f"{LAYER}linear_attn.in_proj_qkv.weight"),
    ("nemotron_h_moe", "backbone.layers.1.mixer.fc1_latent_proj.weight"),
    ("gemma4", f"{LAYER}self_attn.new_norm.weight"), ("gemma4", "model.new_embedding.weight"),
    ("deepseek2", f"{LAYER}self_attn.indexer.wk.weight")])
def test_tensors_of_other_classes(name, tensor, tmp_path):
    expect(folder_of(tmp_path, name, changed_tensors(name, **{tensor: zeros(4, 4)})), tmp_path,
           "unsupported_architecture", tensor, f"belongs to no {class_of(name)}")


@pytest.mark.parametrize("tensor, size", [("self_attn.k_proj", 64), ("mamba.in_proj", 392)])
def test_biases_of_products_that_a_class_multiplies(tensor, size, tmp_path):
    name = f"{LAYER}{tensor}.bias"
    expect(folder_of(tmp_path, "falcon-h1", changed_tensors("falcon-h1", **{name: zeros(size)})),
           tmp_path, "unsupported_architecture", name,
           "product that FalconH1ForCausalLM multiplies", "use another model")


@pytest.mark.parametrize("name, stem", [
    ("deepseek2", f"{LAYER}self_attn.kv_b_proj"), ("falcon-h1", f"{LAYER}self_attn.k_proj")])
def test_quantized_matrices_whose_values_would_move_or_change(name, stem, tmp_path):
    tensors = changed_tensors(name)
    rows, columns = tensors.pop(f"{stem}.weight").shape
    parts = {f"{stem}.qweight": ("I32", np.zeros((columns // 8, rows), "<i4")),
             f"{stem}.qzeros": ("I32", np.full((columns // 32, rows // 8), 0x77777777, "<i4")),
             f"{stem}.scales": ("F16", np.ones((columns // 32, rows), "<f2"))}
    folder = folder_of(tmp_path, name, tensors | parts, quantization_config=IS_GPTQ)
    expect(folder, tmp_path, "unsupported_quantization", stem, "its blocks do not allow",
           "not quantized or in fp8, or a GGUF file")


def changed_tensors(name=MODEL, drop=(), **added):
    tensors = {key: value for key, value in checkpoint.saved(MODELS[name]).items()
               if key not in drop}
    return tensors | added


def test_tensors(tmp_path):
    new = {"model.layers.0.mlp.new_proj.weight": np.zeros((4, 4), np.float32)}
    expect(folder_of(tmp_path, tensors=changed_tensors(**new)), tmp_path,
           "unsupported_architecture", "'model.layers.0.mlp.new_proj.weight' belongs to no Llama")
    expect(folder_of(tmp_path, tensors=changed_tensors(drop=[PLACE])), tmp_path,
           "gguf_malformed", "'blk.2.ffn_up.weight' is absent")
    expect(folder_of(tmp_path, tensors=changed_tensors(drop=["lm_head.weight"])), tmp_path,
           "folder_malformed", "the folder has no lm_head.weight")
    whole = {PLACE: ("I32", np.zeros((128, 64), "<i4"))}
    expect(folder_of(tmp_path, tensors=changed_tensors(**whole)), tmp_path,
           "unsupported_tensor_type", PLACE, "I32")


def test_experts(tmp_path):
    last = "model.layers.1.mlp.experts.7.up_proj.weight"
    expect(folder_of(tmp_path, "qwen3moe", changed_tensors("qwen3moe", [last])), tmp_path,
           "folder_malformed", "'blk.1.ffn_up_exps.weight' lacks expert 7")
    more = {last.replace("7", "8"): np.zeros((64, 64), np.float32)}
    expect(folder_of(tmp_path, "qwen3moe", changed_tensors("qwen3moe", **more)), tmp_path,
           "folder_malformed", "is of expert 8, the model has 8")
    other = {last: np.zeros((32, 64), np.float32)}
    expect(folder_of(tmp_path, "qwen3moe", changed_tensors("qwen3moe", **other)), tmp_path,
           "folder_malformed", "experts of different shapes")


def test_fused_matrices_have_two_halves(tmp_path):
    name = "model.layers.0.block_sparse_moe.input_linear.weight"
    odd = {name: np.zeros((8, 127, 128), np.float32)}
    expect(folder_of(tmp_path, "granitemoe", changed_tensors("granitemoe", **odd)), tmp_path,
           "folder_malformed", name, "odd number of rows")
    name = "model.layers.0.mlp.experts.gate_up_proj_bias"
    odd = {name: np.zeros((8, 127), np.float32)}
    expect(folder_of(tmp_path, "gpt-oss", changed_tensors("gpt-oss", **odd)), tmp_path,
           "folder_malformed", name, "odd number of rows")


STEM = "model.layers.0.mlp.down_proj"
WORDS = ("I32", np.zeros((128 // 8, 64), "<i4"))
GPTQ = {f"{STEM}.qweight": WORDS, f"{STEM}.qzeros": ("I32", np.zeros((4, 8), "<i4")),
        f"{STEM}.scales": ("F16", np.zeros((4, 64), "<f2")),
        f"{STEM}.g_idx": ("I32", (np.arange(128) // 32).astype("<i4"))}
IS_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32}
IS_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
CODES = ("F8_E4M3", np.zeros((64, 128), "u1"))


@pytest.mark.parametrize("parts, method, code, words", [
    ({f"{STEM}.qzeros": None}, IS_GPTQ, "folder_malformed", "lacks its part .qzeros"),
    ({f"{STEM}.scales": None}, IS_GPTQ, "folder_malformed", "lacks its part .scales"),
    ({f"{STEM}.scales": ("F16", np.zeros((3, 64), "<f2"))}, IS_GPTQ, "folder_malformed",
     "192 scales, wanted 256"),
    ({f"{STEM}.scales": ("I32", np.zeros((4, 64), "<i4"))}, IS_GPTQ, "folder_malformed",
     "are I32, wanted F32"),
    ({f"{STEM}.qzeros": ("I32", np.zeros((4, 7), "<i4"))}, IS_GPTQ, "folder_malformed",
     "zero points of another number"),
    ({f"{STEM}.g_idx": ("I32", np.full(128, 4, "<i4"))}, IS_GPTQ, "folder_malformed",
     "names no group"),
    ({f"{STEM}.g_idx": ("I32", np.zeros(127, "<i4"))}, IS_GPTQ, "folder_malformed", "another size"),
    ({f"{STEM}.qweight": ("I16", np.zeros((16, 64), "<i2"))}, IS_GPTQ, "folder_malformed",
     "not I32 of two dimensions"),
    ({}, IS_FP8, "unsupported_quantization", "names no method for packed integers"),
])
def test_parts_of_packed_integers(parts, method, code, words, tmp_path):
    tensors = changed_tensors(drop=[f"{STEM}.weight"]) | GPTQ | parts
    tensors = {name: values for name, values in tensors.items() if values is not None}
    expect(folder_of(tmp_path, tensors=tensors, quantization_config=method), tmp_path, code, words,
           STEM)


def test_blocks_of_small_floats_have_one_size(tmp_path):
    parts = {f"{STEM}.weight": CODES, f"{STEM}.weight_scale_inv": np.zeros((1, 1), np.float32)}
    expect(folder_of(tmp_path, tensors=changed_tensors(drop=[f"{STEM}.weight"]) | parts,
                     quantization_config=IS_FP8 | {"weight_block_size": [64, 128]}), tmp_path,
           "unsupported_quantization", "fp8 with blocks other than 128 x 128")


def test_small_floats_that_a_class_turns(tmp_path):
    name = "model.layers.0.mlp.experts.down_proj"
    parts = {name: ("F8_E4M3", np.zeros((64, 128), "u1")),
             f"{name}_scale": np.zeros((1, 1), np.float32)}
    expect(folder_of(tmp_path, "gpt-oss", changed_tensors("gpt-oss", [name]) | parts,
                     quantization_config=IS_FP8), tmp_path, "folder_malformed", name,
           "quantized in a form that its class does not have")


def test_biases_that_a_class_does_not_have(tmp_path):
    name = "model.layers.0.self_attn.q_proj.bias"
    zeros = {name: np.zeros(128, np.float32)}
    probe_of = folder_of(tmp_path / "zeros", "cohere2", changed_tensors("cohere2", **zeros))
    assert probe(probe_of, tmp_path)
    expect(folder_of(tmp_path / "ones", "cohere2",
                     changed_tensors("cohere2", **{name: np.ones(128, np.float32)})), tmp_path,
           "unsupported_architecture", name)


@pytest.mark.parametrize("parts, code, words", [
    ({f"{STEM}.weight": CODES, f"{STEM}.weight_scale_inv": np.zeros((2, 2), np.float32)},
     "folder_malformed", "do not fit its shape"),
    ({f"{STEM}.weight": ("F8_E5M2", CODES[1]),
      f"{STEM}.weight_scale_inv": np.zeros((1, 1), np.float32)},
     "unsupported_quantization", "F8_E5M2"),
    ({f"{STEM}.weight": CODES}, "unsupported_tensor_type", "F8_E4M3"),
    ({f"{STEM}_blocks": ("U8", np.zeros((1, 64, 4, 16), "u1")),
      f"{STEM}_scales": ("U8", np.zeros((1, 64, 3), "u1"))}, "folder_malformed", "do not fit"),
    ({f"{STEM}_blocks": ("U8", np.zeros((1, 64, 4, 16), "u1"))}, "folder_malformed",
     "_scales' is absent"),
])
def test_parts_of_small_floats(parts, code, words, tmp_path):
    tensors = changed_tensors(drop=[f"{STEM}.weight"]) | parts
    expect(folder_of(tmp_path, tensors=tensors, quantization_config=IS_FP8), tmp_path, code, words,
           STEM)


def test_a_name_on_a_hub(tmp_path):
    expect("Qwen/Qwen3-0.6B", tmp_path, "folder_unreadable", "cannot be reached from here",
           "tokenizer.json", "hf download Qwen/Qwen3-0.6B", "--model FOLDER")
    expect("models/of-mine.gguf", tmp_path, "gguf_unreadable", "models/of-mine.gguf")


def test_a_url(tmp_path):
    expect("https://huggingface.co/Qwen/Qwen3-0.6B", tmp_path, "folder_unreadable", "is a URL",
           "download the .gguf file")


def test_a_link_to_a_folder_is_followed(tmp_path):
    """As a hub's cache has them."""
    folder = folder_of(tmp_path)
    kept = tmp_path / "blob"
    (folder / "model.safetensors").rename(kept)
    (folder / "model.safetensors").symlink_to(kept)
    (tmp_path / "snapshot").symlink_to(folder)
    assert probe(tmp_path / "snapshot", tmp_path)[0]["keys"]["general.name"] == "snapshot"
