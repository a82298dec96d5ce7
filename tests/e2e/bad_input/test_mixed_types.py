"""A model whose gate and up have different types runs its layers part by part. The programs say so
and name the tensor that is the reason. Other mixed types run in one launch."""
import json
import random

import pytest

from tiny_gguf import good_tensors, tiny_gguf

JOB = '{"prompt": "hello", "max_tokens": 2}'
BLOCK = 32
TYPES = {"Q4_0": (2, 2 + BLOCK // 2), "Q8_0": (8, 2 + BLOCK)}  # id in the file, bytes per block


def quantized(shape, name, source):
    """Returns a matrix of random codes with small scales."""
    number, block_bytes = TYPES[name]
    count = shape[0] * shape[1] // BLOCK
    data = b"".join(b"\0\x18" + source.randbytes(block_bytes - 2) for _ in range(count))
    return shape, number, data


def model(other="ffn_up"):
    """Returns a model of one layer, 64 channels and two heads, all Q8_0 but one matrix."""
    source = random.Random(7)
    tensors = {name: quantized(shape, "Q4_0" if other in name else "Q8_0", source)
               for name, (shape, _, _) in good_tensors().items()
               if name.startswith("blk.") and len(shape) == 2}
    # Heads have 32 channels, because whole layers need that; keys and values have as many heads.
    for name in ("blk.0.attn_k.weight", "blk.0.attn_v.weight"):
        tensors[name] = quantized((64, 64), "Q8_0", source)
    return tiny_gguf({"llama.attention.head_count": 2, "llama.attention.head_count_kv": 2}, tensors)


@pytest.mark.parametrize("other, path, told", [
    ("ffn_down", '"one launch"', "1 layer in one launch"),
    ("ffn_up", "parts", "1 layer in parts, several launches each: "
                        "blk.0.ffn_up.weight is Q4_0, blk.0.ffn_gate.weight is Q8_0")])
def test_run_and_the_engines_log_say_how_the_layers_run(real_run, call, other, path, told):
    real_run.model.write_bytes(model(other))
    real_run.write([JOB])
    done = real_run.go(expect=0)
    assert real_run.results()[1]["error"] is None
    (line,) = [x for x in done.stderr.splitlines() if "the engine is ready" in x]
    if "need a CPU device" in line:
        pytest.skip("the device is not a CPU")
    assert line.startswith("millrace: the engine is ready: model ")
    assert line.endswith(", kv f16 (1.0x), " + told)
    log = (real_run.folder / "results.jsonl.millrace" / "engine.log").read_text()
    (entry,) = [x for x in log.splitlines() if "how the layers run" in x]
    assert f"path={path} layers=1 " in entry
    assert ("ffn_up" in entry) == (path == "parts")
    again = real_run.go("--restart", "--json", expect=0)
    events = [json.loads(x) for x in again.stdout.splitlines()]
    (event,) = [x for x in events if x["event"] == "engine_ready"]
    assert event["message"].endswith(told)
    scored = call("millrace", "score", "--model", real_run.model, text="hi\n")
    assert scored.returncode == 0 and told in scored.stderr and told not in scored.stdout


def test_status_says_how_the_layers_run(real_broker):
    real_broker.real_engine()
    told = ("1 layer in parts, several launches each: "
            "blk.0.attn_q.weight is F32, which is not quantized")
    assert f"\n  runs {told}\n" in real_broker.millrace("status").stdout
    (engine,) = json.loads(real_broker.millrace("status", "--json").stdout)["engines"]
    assert engine["layer_path"] == told
