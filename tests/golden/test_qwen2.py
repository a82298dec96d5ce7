"""Compares a qwen2 of random weights with the float64 reference: biases on q, k and v with the
outliers that such keys have, RoPE by halves, grouped heads, tied embeddings, matrices of two types.
tests/unit/tokenizer tests the tokenizer on the real vocabulary.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/fidelity"))
import fidelity  # noqa: E402

# These shapes occur in other tests, so their kernels are compiled already.
LAYERS, WIDTH, HEADS, KV_HEADS, FFN_WIDTH, VOCABULARY = 3, 64, 4, 2, 96, 320
CONTEXT = 300  # longer than a segment of attention


def write_model(path, architecture="qwen2", biases=True):
    """Writes random weights from one seed; leaving some out does not change the others."""
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(1024)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FFN_WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(1000000.0)
    writer.add_layer_norm_rms_eps(1e-6)

    def matrix(name, rows, columns, kind=gguf.GGMLQuantizationType.Q8_0):
        values = random.normal(0, 1.5 / columns ** 0.5, (rows, columns)).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(name, values):
        writer.add_tensor(name, values.astype(np.float32))

    matrix("token_embd.weight", VOCABULARY, WIDTH, gguf.GGMLQuantizationType.F16)
    vector("output_norm.weight", random.uniform(0.5, 4, WIDTH))
    kv_width = WIDTH // HEADS * KV_HEADS
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{name}.weight", random.uniform(0.5, 1.5, WIDTH))
        for name, rows in (("attn_q", WIDTH), ("attn_k", kv_width), ("attn_v", kv_width)):
            matrix(f"blk.{i}.{name}.weight", rows, WIDTH)
            bias = random.normal(0, 0.5, rows)
            if name == "attn_k":
                bias[3::WIDTH // HEADS] *= 40
            if biases:
                vector(f"blk.{i}.{name}.bias", bias)
        matrix(f"blk.{i}.attn_output.weight", WIDTH, WIDTH)
        matrix(f"blk.{i}.ffn_gate.weight", FFN_WIDTH, WIDTH)
        matrix(f"blk.{i}.ffn_up.weight", FFN_WIDTH, WIDTH)
        matrix(f"blk.{i}.ffn_down.weight", WIDTH, FFN_WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    path = tmp_path_factory.mktemp("qwen2") / "contexts.json"
    tokens = np.random.default_rng(8).integers(0, VOCABULARY, 2 * CONTEXT).tolist()
    path.write_text(json.dumps({"context": CONTEXT, "tokens": tokens}))
    return path


@pytest.fixture(scope="module")
def truth(contexts, tmp_path_factory):
    model = write_model(tmp_path_factory.mktemp("qwen2") / "qwen2.gguf")
    return model, fidelity.compute_reference(model, contexts)


# Measured: 4.3e-6 and 0.0053. Rounding keys to halves costs more here than on the real model,
# because outliers leave the other channels fewer bits of the score.
@pytest.mark.parametrize("math_mode, most", [("exact", 1e-5), ("fast", 0.01)])
def test_the_engine_is_close_to_the_reference(truth, contexts, math_mode, most):
    model, reference = truth
    row = fidelity.measure(model, math_mode, contexts, reference=reference)
    assert row["positions"] == 2 * (CONTEXT // 2 - 1)
    assert 0 < row["mean_kld"] <= most, row


# The measure detects the wrong architecture: the same weights read as another model are far away.
@pytest.mark.parametrize("wrong", [{"architecture": "llama"}, {"biases": False}])
def test_the_same_weights_as_another_model_are_far(truth, contexts, wrong, tmp_path):
    _, reference = truth
    other = write_model(tmp_path / "other.gguf", **wrong)
    assert fidelity.measure(other, "exact", contexts, reference=reference)["mean_kld"] > 1
