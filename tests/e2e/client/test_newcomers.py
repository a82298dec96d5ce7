"""What people who were new to the program stumbled over, as it is today."""
import json
import socket

import pytest
from programs import completion, millrace


@pytest.mark.parametrize("kind", ["ipc", "tcp"])
def test_nobody_listens_and_somebody_is_silent_are_told_apart(kind, tmp_path):
    family = socket.AF_UNIX if kind == "ipc" else socket.AF_INET
    place = str(tmp_path / "s") if kind == "ipc" else ("127.0.0.1", 0)
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(place)
        name = listener.getsockname()
        endpoint = f"ipc://{name}" if kind == "ipc" else f"tcp://127.0.0.1:{name[1]}"
        words = ("status", "--broker", endpoint, "--timeout", "1")
        listener.listen()
        silent = millrace(*words)
        assert silent.returncode == 4 and "does not answer as a broker does" in silent.stderr
    nobody = millrace(*words)
    assert nobody.returncode == 4 and f"nobody listens at {endpoint}" in nobody.stderr
    assert "start the broker" in nobody.stderr


def test_a_line_may_name_any_model_if_submit_is_told_so(broker, tmp_path):
    broker.engine()
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(completion("a", "p", model="gpt-4o-mini"))
    refused = broker.millrace("submit", str(jobs), expect=1)
    assert "unknown_model" in refused.stderr and "--any-model" in refused.stderr
    done = broker.millrace("submit", str(jobs), "--any-model", "--wait", expect=0)
    body = json.loads(done.stdout)["response"]["body"]
    assert 'names model "gpt-4o-mini", but "stub" ran' in body["millrace"]["warnings"][0]


def test_a_stream_without_results_is_told_in_plain_words(broker):
    done = broker.millrace("results", "nosuch")
    assert "stream nosuch holds no result" in done.stderr


def test_a_short_text_to_calibrate_by_is_warned_of(model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The sea is wide and the sky above it is blue. " * 10)
    keys = tmp_path / "m.keys"
    done = millrace("calibrate", "--model", model, "--text", str(text), "-o", str(keys))
    assert done.returncode == 0, done.stderr
    assert "the text has only 1" in done.stderr and "fit other texts badly" in done.stderr


def test_an_engine_that_dies_and_comes_back_is_told_in_a_line(run):
    run.write([completion("a", "kills"), completion("b", "fine")])
    run.env["STUB_ABORT_ON"] = "kills"
    done = run.go(expect=1)
    deaths = [x for x in done.stderr.splitlines() if "its last words" in x]
    assert deaths and all("more in" in x and "engine.log" in x for x in deaths)
    assert len(done.stderr.splitlines()) < 20
