"""Batches as objects, over real processes: closing, labels, progress, and the one entry that tells
the end."""
import json

from programs import completion, wait_until


def write(broker, count, name="jobs.jsonl", prompt="p"):
    path = broker.folder / name
    path.write_text("".join(completion(f"j{i}", f"{prompt}{i}") + "\n" for i in range(count)))
    return str(path)


def show(broker, batch):
    return json.loads(broker.millrace("batches", "show", batch, "--json", expect=0).stdout)


def ends(broker):
    done = broker.millrace("results", "batches")
    assert done.returncode == 0 or "not_found" in done.stderr  # the stream begins with the first
    return [json.loads(x) for x in done.stdout.splitlines()]


def test_a_file_is_a_batch_that_closes_and_tells_its_end_once(broker):
    told = json.loads(broker.millrace("submit", write(broker, 5), "--json", expect=0).stdout)
    batch = told["batch"]
    assert told["closed"] and show(broker, batch)["closed"]
    assert "finished_us" not in show(broker, batch)
    broker.millrace("batches", "label", batch, "owner=me", "night=", expect=0)
    broker.kill()
    broker.start()
    engine = broker.engine(STUB_DELAY_MS="300", STUB_ROWS="1")
    wait_until(lambda: show(broker, batch)["counts"]["completed"] >= 2, "two results")
    broker.kill()  # in the middle of the batch
    broker.start()
    wait_until(lambda: show(broker, batch).get("finished_us"), "the end of the batch")
    broker.kill()
    broker.start()
    end, = ends(broker)
    assert (end["batch"], end["counts"]["completed"], end["metadata"]) == (
        batch, 5, {"owner": "me"})
    assert end["finished_us"] == show(broker, batch)["finished_us"]
    again = broker.millrace("submit", write(broker, 5), expect=0)
    assert "5 jobs submitted, all of them known already" in again.stderr and len(ends(broker)) == 1
    engine.terminate()


def test_a_named_batch_stays_open_until_it_is_closed(broker):
    broker.engine()
    broker.millrace("submit", write(broker, 2), "--batch", "night", "--wait", expect=0)
    assert not show(broker, "night")["closed"]
    more = write(broker, 1, "more.jsonl", "q")
    broker.millrace("submit", more, "--batch", "night", "--wait", "--close", expect=0)
    shown = broker.millrace("batches", "show", "night", expect=0).stdout
    assert "batch night: finished, 3 of 3 jobs ended" in shown
    assert "entry 1 of stream batches" in shown
    late = broker.millrace("submit", write(broker, 1, "late.jsonl", "r"), "--batch", "night",
                           expect=1)
    assert "batch_closed" in late.stderr and "another batch" in late.stderr
    assert "not_found" in broker.millrace("batches", "close", "nobody", expect=3).stderr
    assert "is no NAME=VALUE" in broker.millrace("batches", "label", "night", "x", expect=2).stderr
    assert json.loads(broker.millrace("results", "batches", "--batch", "night", expect=0).stdout)[
        "counts"]["completed"] == 3


def test_a_batch_with_a_refused_job_stays_open(broker):
    path = broker.folder / "mixed.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b", "model": "nobody"}\n')
    told = json.loads(broker.millrace("submit", str(path), "--json", expect=1).stdout)
    assert not told["closed"] and not show(broker, told["batch"])["closed"]


def test_batches_are_listed_with_their_progress(broker):
    assert broker.millrace("batches", "ls", expect=0).stdout == "no batch\n"
    broker.engine(STUB_DELAY_MS="200", STUB_ROWS="1")
    batch = json.loads(broker.millrace("submit", write(broker, 40), "--json", expect=0).stdout)[
        "batch"]
    broker.millrace("submit", write(broker, 1, "b.jsonl", "q"), "--batch", "b", expect=0)
    wait_until(lambda: show(broker, batch).get("eta_s"), "the time that is left")
    state = show(broker, batch)
    left = state["counts"]["queued"] + state["counts"]["leased"]
    assert state["eta_s"] >= left / state["jobs_per_second"] - 1
    listed = broker.millrace("batches", "ls", expect=0).stdout
    assert f"batch {batch}: closed, " in listed and " left" in listed
    assert "batch b: open, 0 of 1 job ended" in listed
    broker.millrace("cancel", "--batch", batch, expect=0)
    wait_until(lambda: show(broker, batch).get("finished_us"), "the end of the cancelled batch")
    assert ends(broker)[0]["counts"]["cancelled"] >= 1


def test_a_retry_takes_the_end_back(broker):
    broker.engine(STUB_FAIL_ON="p0", STUB_FAIL_TIMES="1")
    batch = json.loads(broker.millrace("submit", write(broker, 2), "--json", expect=0).stdout)[
        "batch"]
    wait_until(lambda: len(ends(broker)) == 1, "the first end")
    broker.millrace("retry", "--batch", batch, expect=0)
    wait_until(lambda: len(ends(broker)) == 2, "the second end")
    assert [x["counts"]["failed"] for x in ends(broker)] == [1, 0]
