"""Files that are not models, models that cannot run, devices that do not exist."""
import json
import struct

import pytest

from tiny_gguf import tiny_gguf


def patched(at, layout, value):
    raw = bytearray(tiny_gguf())
    struct.pack_into(layout, raw, at, value)
    return bytes(raw)


def with_keys(**keys):
    return tiny_gguf({"llama." + name.replace("__", "."): value for name, value in keys.items()})


Q_NAME = "blk.0.attn_q.weight"
MODELS = {
    "empty": (b"", "gguf_unreadable", "empty"),
    "text": (b"no model at all", "gguf_malformed", "'GGUF'"),
    "magic": (patched(0, "<I", 0x12345678), "gguf_malformed", "'GGUF'"),
    "version": (patched(4, "<I", 1), "gguf_version", "version 1"),
    "cut in the header": (tiny_gguf()[:100], "gguf_malformed", "byte"),
    "cut in the data": (tiny_gguf()[:100_000], "gguf_malformed", "cut short"),
    "too many tensors": (patched(8, "<Q", 2**63), "gguf_malformed", "9223372036854775808 tensors"),
    "too many keys": (patched(16, "<Q", 2**40), "gguf_malformed", "1099511627776 metadata pairs"),
    "no architecture": (tiny_gguf({"general.architecture": None}), "gguf_malformed",
                        "general.architecture"),
    "architecture": (tiny_gguf({"general.architecture": "mamba"}), "unsupported_architecture",
                     '"mamba"'),
    "a string for a count": (with_keys(block_count="two"), "gguf_malformed", "holds string"),
    "absurd layers": (with_keys(block_count=4_000_000_000), "gguf_malformed", "4000000000 layers"),
    "no context": (with_keys(context_length=0), "gguf_malformed", "context 0"),
    "no heads": (with_keys(attention__head_count=0), "gguf_malformed", "0 heads"),
    "tensor type": (tiny_gguf(tensors={Q_NAME: ((256, 16), 19, bytes(50 * 16))}),
                    "unsupported_tensor_type", "IQ1_S"),
    "no tensor": (tiny_gguf(tensors={Q_NAME: None}), "gguf_malformed", Q_NAME),
    "tensor shape": (tiny_gguf(tensors={Q_NAME: ((32, 64), 0, bytes(8192))}), "gguf_malformed",
                     "32 x 64"),
    "NaN weights": (tiny_gguf(tensors={Q_NAME: ((64, 64), 0, b"\xff" * 64 * 64 * 4)}),
                    "gguf_malformed", Q_NAME),
    "tokenizer": (tiny_gguf({"tokenizer.ggml.model": "bert"}), "unsupported_tokenizer", "'bert'"),
    "pre-tokenizer": (tiny_gguf({"tokenizer.ggml.pre": "klingon"}), "unsupported_tokenizer",
                      "'klingon'"),
    "no tokens": (tiny_gguf({"tokenizer.ggml.tokens": None}), "gguf_malformed",
                  "tokenizer.ggml.tokens"),
}


@pytest.mark.parametrize("raw, code, words", MODELS.values(), ids=MODELS.keys())
def test_the_engine_refuses_it_by_name(call, tmp_path, raw, code, words):
    path = tmp_path / "the-model.gguf"
    path.write_bytes(raw)
    ended = call("millrace-engine", "--model", path, "--broker", f"ipc://{tmp_path}/nobody")
    assert ended.returncode == 3, ended.stderr
    *_, error, hint = ended.stderr.rstrip().splitlines()
    assert error.startswith(f"millrace-engine: {code}: ") and words in error, ended.stderr
    assert hint.startswith("  ") and len(hint) > 10, "the hint must be on the next line"
    assert "the-model.gguf" in error or "tokenizer.ggml" in error


def test_hints_name_models_that_load(call, tmp_path):
    """The hint about architectures must not recommend models that the tokenizer refuses."""
    def hint(key, value):
        path = tmp_path / "the-model.gguf"
        path.write_bytes(tiny_gguf({key: value}))
        ended = call("millrace-engine", "--model", path, "--broker", f"ipc://{tmp_path}/nobody")
        assert ended.returncode == 3, ended.stderr
        return ended.stderr.rstrip().splitlines()[-1]

    architecture = hint("general.architecture", "mamba")
    for family in ("llama", "qwen3moe", "gemma3", "gpt-oss"):
        assert family in architecture
    tokenizer = hint("tokenizer.ggml.model", "bert")
    for model in ("gpt2", "llama", "gemma4"):
        assert model in tokenizer
    pre_tokenizer = hint("tokenizer.ggml.pre", "klingon")
    for name in ("gpt-2", "llama-bpe", "qwen2", "tekken"):
        assert name in pre_tokenizer


@pytest.mark.parametrize("path, code, words", [
    ("absent.gguf", "gguf_unreadable", "cannot open"),
    (".", "folder_unreadable", "the folder has no config.json")])
def test_a_path_that_is_no_model(call, tmp_path, path, code, words):
    for name, extra in (("millrace-engine", []), ("millrace", ["tokenize"])):
        ended = call(name, *extra, "--model", tmp_path / path, text="x\n")
        assert ended.returncode == 3
        assert code in ended.stderr and words in ended.stderr


def test_run_shows_the_engines_error_and_goes_on_with_a_good_model(real_run):
    real_run.write(['{"prompt": "hello", "max_tokens": 2}'])
    good = real_run.model.read_bytes()
    real_run.model.write_bytes(good[:-1000])
    event = json.loads(real_run.go("--json", expect=3).stderr.splitlines()[-1])
    assert event["code"] == "gguf_malformed" and "cut short" in event["message"]
    assert "download" in event["hint"]
    real_run.model.write_bytes(good)
    (real_run.folder / "file").write_text("")
    there = sorted(real_run.folder.iterdir())
    for extra, code, said in (
            (("--device", "nosuch"), "no_device", "nosuch"),
            (("--kv-memory", "1KiB"), "kv_exceeded", "--kv-memory of 1 KiB"),
            (("--prefix-cache", f"{real_run.folder}/file/cache"), "io_error", "--prefix-cache"),
            (("--kv", "q8"), "unsupported_field", "heads of 16"),
            (("--kv-protect", "first:99"), "invalid_value", "first:99: the model has 1 layer"),
            (("--kv-center", str(real_run.folder / "file")), "invalid_value", "mean keys")):
        refused = real_run.go(*extra, expect=3).stderr
        assert f"millrace: {code}: " in refused and said in refused, refused
        assert "lines are in" not in refused
        assert sorted(real_run.folder.iterdir()) == there, f"{extra} left something behind"
    real_run.go(expect=0)
    assert real_run.results()[1]["error"] is None


def test_a_missing_model_is_an_error_even_with_nothing_to_do(real_run):
    real_run.model.unlink()
    real_run.write([])
    there = sorted(real_run.folder.iterdir())
    for lines in ([], ['{"prompt": "hello", "max_tokens": 2}']):
        real_run.write(lines)
        refused = real_run.go(expect=3).stderr
        assert "gguf_unreadable" in refused and "tiny.gguf" in refused
        assert sorted(real_run.folder.iterdir()) == there


def test_a_run_that_has_met_its_engine_keeps_its_settings(real_run):
    real_run.write(["nonsense", '{"prompt": "hello", "max_tokens": 2}'])
    real_run.go(expect=1)
    before = real_run.output.read_bytes()
    real_run.model.write_bytes(tiny_gguf({"general.name": "another"}))
    refused = real_run.go(expect=3).stderr
    assert "settings_changed" in refused and "--restart" in refused
    assert real_run.output.read_bytes() == before


def test_no_opencl_device(real_run, call, tmp_path):
    real_run.write(['{"prompt": "hello", "max_tokens": 2}'])
    nothing = tmp_path / "no-vendors"
    nothing.mkdir()
    real_run.env["OCL_ICD_VENDORS"] = str(nothing)
    refused = real_run.go(expect=3).stderr
    assert "millrace: no_device: " in refused and "apt install pocl-opencl-icd" in refused
    scored = call("millrace", "score", "--model", real_run.model, text="hi\n",
                  OCL_ICD_VENDORS=str(nothing))
    assert scored.returncode == 3 and "pocl-opencl-icd" in scored.stderr
    del real_run.env["OCL_ICD_VENDORS"]
    real_run.go(expect=0)
