"""`millrace bench`: the jobs have the asked shape, and the figures are those of the results"""
import json
import pathlib
import signal
import subprocess
import time

import pytest
from patience import PATIENCE_S
from programs import millrace, wait_until


def bench(broker, *words, expect=0):
    done = broker.millrace("bench", *words, "--json", expect=expect)
    return json.loads(done.stdout)


def results(broker):
    (stream,) = [x for x in broker.millrace("streams", "ls", "-q", expect=0).stdout.split()
                 if x.startswith("bench-")]
    lines = broker.millrace("results", stream, expect=0).stdout.splitlines()
    return [json.loads(x)["response"]["body"] for x in lines]


def test_a_load_at_a_broker_is_measured_and_leaves_nothing(broker):
    broker.engine(STUB_DELAY_MS="20")
    told = bench(broker, "-n", "40", "--warmup", "2")
    assert (told["jobs"], told["completed"], told["refused"]) == (40, 40, 0)
    assert told["shape"]["warmup"] == 2
    assert told["jobs_per_second"] == pytest.approx(40 / told["seconds"], rel=1e-6)
    assert told["whole_ms"]["p50"] >= 20
    assert told["result_ms"]["most"] >= told["whole_ms"]["p50"]
    assert "bench-" not in broker.millrace("streams", "ls", expect=0).stdout


def test_lengths_and_concurrency_are_as_asked(broker):
    broker.engine(STUB_DELAY_MS="100")
    told = bench(broker, "-n", "6", "--concurrency", "2", "--keep")
    assert told["seconds"] >= 0.3, "three rounds of two"
    assert len(results(broker)) == 6


def test_jobs_come_at_the_rate(broker):
    broker.engine()
    begin = time.monotonic()
    told = bench(broker, "-n", "20", "--rate", "20")
    assert 0.3 < told["seconds"] <= time.monotonic() - begin
    other = bench(broker, "-n", "20", "--rate", "20", "--seed", "2")
    assert other["shape"]["seed"] == 2


def test_failures_are_told_with_the_first_error(broker):
    broker.engine()
    done = broker.millrace("bench", "-n", "3", "--served-model", "nosuch", expect=1)
    assert "3 jobs in 0.00 s, 3 of them refused or failed" in done.stdout
    assert "unknown_model" in done.stderr
    told = bench(broker, "-n", "3", "--warmup", "2", "--served-model", "nosuch", expect=1)
    assert (told["refused"], told["jobs"]) == (3, 0), "jobs that warm up are not measured"


def test_a_load_that_is_stopped_leaves_no_jobs_and_no_stream(broker):
    process = subprocess.Popen(broker.command("bench", "-n", "20"), stderr=subprocess.DEVNULL)

    def counts():
        return json.loads(broker.millrace("status", "--json", expect=0).stdout)["counts"]
    wait_until(lambda: counts()["queued"] == 20, "the jobs")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    wait_until(lambda: counts()["cancelled"] == 20, "the end of the jobs")
    wait_until(lambda: "bench-" not in broker.millrace("streams", "ls", expect=0).stdout,
               "the end of the stream")


def test_a_shape_that_cannot_be_is_refused():
    done = millrace("bench", "--shared-tokens", "9", "--prompt-tokens", "8")
    assert done.returncode == 2 and "--shared-tokens" in done.stderr


def test_an_embedded_engine_computes_what_was_asked_for(model, tmp_path):
    done = millrace("bench", "--model", model, "-n", "3", "--prompt-tokens", "40",
                    "--answer-tokens", "5", "--shared-tokens", "32", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["prompt_tokens"], told["completion_tokens"]) == (120, 15)
    assert 0 < told["first_token_ms"]["p50"] <= told["whole_ms"]["most"]
    assert told["token_gap_ms"]["p50"] > 0
    assert not list(pathlib.Path(tmp_path).iterdir())
    text = millrace("bench", "--model", model, "-n", "1", "--prompt-tokens", "4",
                    "--answer-tokens", "2").stdout
    assert text.startswith("1 job in ") and "to the first token  half in " in text
