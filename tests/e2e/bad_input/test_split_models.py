"""A model in several files runs as the whole one does, and its id is its name without the part."""
import pytest

from programs import completion
from tiny_gguf import good_tensors, tiny_gguf

JOBS = [completion("a", "hello", max_tokens=8, temperature=0), completion("b", "ab", max_tokens=3)]
PARTS = 3


def part(number):
    """Part `number`, from 1, of the tiny model: each has every third tensor."""
    others = {name: None for i, name in enumerate(good_tensors()) if i % PARTS != number - 1}
    keys = {"split.no": number - 1, "split.count": PARTS,
            "split.tensors.count": len(good_tensors())}
    return tiny_gguf(keys, others)


@pytest.fixture
def parts(tmp_path):
    paths = [tmp_path / f"big.F32-{number:05}-of-{PARTS:05}.gguf" for number in (1, 2, 3)]
    for number, path in enumerate(paths, 1):
        path.write_bytes(part(number))
    return paths


def test_a_split_model_gives_the_results_of_the_whole(real_run, parts):
    def texts():
        bodies = {key: record["response"]["body"] for key, record in real_run.results().items()}
        return {key: (body["model"], body["choices"][0]["text"]) for key, body in bodies.items()}

    real_run.write(JOBS)
    real_run.model.write_bytes(tiny_gguf())
    real_run.go(expect=0)
    whole = texts()
    real_run.model = parts[0]
    real_run.go("--restart", expect=0)
    assert texts() == {key: ("big.F32", text) for key, (_, text) in whole.items()}


def test_a_run_does_not_go_on_with_another_part(real_run, parts):
    real_run.model = parts[0]
    real_run.write([*JOBS, "nonsense"])
    real_run.go(expect=1)
    raw = bytearray(parts[2].read_bytes())
    raw[-2] ^= 1
    parts[2].write_bytes(raw)
    real_run.write([*JOBS, "nonsense", completion("c", "x", max_tokens=1)])
    refused = real_run.go(expect=3).stderr
    assert "--model" in refused, refused


def test_wrong_parts_are_refused_by_name(call, parts):
    def refused(path):
        ended = call("millrace", "tokenize", "--model", path, text="x\n")
        assert ended.returncode == 3
        return ended.stderr

    assert call("millrace", "tokenize", "--model", parts[0], text="x\n").returncode == 0
    second = refused(parts[1])
    assert "gguf_unreadable" in second and "part 2 of 3" in second and str(parts[0]) in second
    parts[2].write_bytes(part(2))
    assert "gguf_malformed" in refused(parts[0]) and "not part 3 of 3" in refused(parts[0])
    parts[2].unlink()
    missing = refused(parts[0])
    assert "gguf_unreadable" in missing and parts[2].name in missing and "all 3 parts" in missing
