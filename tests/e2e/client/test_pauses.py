"""Pausing and resuming batches, models and everything, over real processes."""
import json

import pytest
from programs import completion, wait_until


def submit(broker, count, batch):
    path = broker.folder / f"{batch}.jsonl"
    path.write_text("".join(completion(f"{batch}{i}", f"{batch} {i}") + "\n" for i in range(count)))
    broker.millrace("submit", str(path), "--batch", batch, expect=0)


def show(broker, batch):
    return json.loads(broker.millrace("batches", "show", batch, "--json", expect=0).stdout)


def completed(broker, batch):
    return show(broker, batch)["counts"]["completed"]


def test_a_paused_batch_waits_over_a_restart_and_others_go_on(broker):
    engine = broker.engine(STUB_DELAY_MS="20", STUB_ROWS="1")
    submit(broker, 30, "night")
    wait_until(lambda: completed(broker, "night") >= 3, "the first results")
    told = broker.millrace("pause", "--batch", "night", expect=0).stdout
    assert told == "batch night: paused\n"
    wait_until(lambda: show(broker, "night")["counts"]["leased"] == 0, "the end of what runs")
    left = show(broker, "night")
    assert left["paused"] and "eta_s" not in left and left["counts"]["queued"] > 0
    broker.kill()
    broker.start()
    submit(broker, 3, "day")
    wait_until(lambda: completed(broker, "day") == 3, "the end of the other batch")
    assert show(broker, "night")["counts"] == left["counts"]
    assert "batch night: open, paused, " in broker.millrace("batches", "ls", expect=0).stdout
    assert ": queued, handed out 0 times, paused" in broker.millrace(
        "jobs", "ls", "--batch", "night", "--state", "queued", "--limit", "1", expect=0).stdout
    assert "paused: the batch" in broker.millrace("status", "--batch", "night", expect=0).stdout
    changed = broker.millrace("resume", "--batch", "night", "--json", expect=0).stdout
    assert json.loads(changed) == {"paused": False, "changed": True}
    wait_until(lambda: completed(broker, "night") == 30, "the end of the batch")
    engine.terminate()


@pytest.mark.parametrize("what", [("--all",), ("--model", "*"), ("--batch", "b")])
def test_each_pause_holds_back_until_its_resumption(broker, what):
    submit(broker, 2, "b")
    broker.millrace("pause", *what, expect=0)
    assert ", as before" in broker.millrace("pause", *what, expect=0).stdout
    broker.engine()
    status = json.loads(broker.millrace("status", "--json", expect=0).stdout)
    assert status["paused"] == (what == ("--all",))
    assert status["paused_models"] == (["*"] if "--model" in what else [])
    assert status["counts"]["queued"] == 2
    broker.millrace("resume", *what, expect=0)
    wait_until(lambda: completed(broker, "b") == 2, "the end of the jobs")
    assert ", as before" in broker.millrace("resume", *what, expect=0).stdout


def test_what_cannot_be_paused_is_refused(broker):
    for words in [(), ("--all", "--batch", "b"), ("--model", "m", "--batch", "b")]:
        assert "give one of --batch" in broker.millrace("pause", *words, expect=2).stderr
    assert "not_found" in broker.millrace("pause", "--batch", "nobody", expect=3).stderr
    assert "not_found" in broker.millrace("resume", "--batch", "nobody", expect=3).stderr
    assert "unknown_model" in broker.millrace("pause", "--model", "nobody", expect=3).stderr
