"""Stored jobs from the command line: listed, shown, dropped, started later, expired, run again."""
import json

from programs import completion, wait_until


def submit(broker, prompts, *options, name="jobs.jsonl"):
    """Submits a line for each prompt, with the custom_id j1, j2 and so on; returns the batch."""
    path = broker.folder / name
    path.write_text("".join(completion(f"j{i}", p) + "\n" for i, p in enumerate(prompts, 1)))
    return json.loads(broker.millrace("submit", str(path), "--json", *options, expect=0)
                      .stdout)["batch"]


def listed(broker, *options):
    out = broker.millrace("jobs", "ls", "--json", *options, expect=0).stdout
    return [json.loads(x) for x in out.splitlines()]


def in_state(broker, state):
    return [x["custom_id"] for x in listed(broker, "--state", state)]


def counts(broker, batch):
    return json.loads(broker.millrace("status", "--batch", batch, "--json", expect=0)
                      .stdout)["counts"]


def test_failed_jobs_are_listed_shown_retried_and_dropped(broker):
    broker.engine(STUB_FAIL_ON="bad", STUB_FAIL_TIMES="1")
    batch = submit(broker, ["good", "bad 1", "good", "bad 2", "bad 3"])
    wait_until(lambda: counts(broker, batch)["failed"] == 3, "three failures")
    assert in_state(broker, "failed") == ["j2", "j4", "j5"]
    told = broker.millrace("jobs", "ls", "--state", "failed", "--batch", batch, expect=0).stdout
    assert told.count("context_exceeded: the stub fails it") == 3
    assert [x["custom_id"] for x in listed(broker, "--batch", batch, "--limit", "2")] == [
        "j1", "j2"]
    ids = broker.millrace("jobs", "ls", "--state", "failed", "--ids", expect=0).stdout.split()
    shown = broker.millrace("jobs", "show", ids[0], expect=0).stdout
    for fact in (f"job {ids[0]}: failed", "custom_id: j2", f"batch: {batch}", "handed out: once",
                 "error: context_exceeded: the stub fails it", "result: number "):
        assert fact in shown, fact
    assert json.loads(broker.millrace("jobs", "show", ids[0], "--json", expect=0).stdout)[
        "error"]["code"] == "context_exceeded"
    broker.millrace("retry", ids[0], expect=0)
    wait_until(lambda: counts(broker, batch)["completed"] == 3, "the retried job's result")
    assert "error" not in json.loads(
        broker.millrace("jobs", "show", ids[0], "--json", expect=0).stdout)
    dropped = broker.millrace("jobs", "drop", ids[0], ids[1], "nobody", expect=1)
    assert dropped.stdout == "1 forgotten, 1 had not failed, 1 unknown\n"
    assert "only failed jobs are dropped" in dropped.stderr
    assert broker.millrace("jobs", "drop", "--batch", batch, expect=0).stdout == "1 forgotten\n"
    assert counts(broker, batch) == {"queued": 0, "leased": 0, "completed": 3, "failed": 0,
                                     "cancelled": 0, "expired": 0}
    assert "not_found" in broker.millrace("jobs", "show", ids[1], expect=3).stderr
    assert broker.millrace("jobs", "ls", "--state", "failed", expect=0).stdout == "no job\n"
    mistyped = broker.millrace("jobs", "ls", "--batch", "mistyped", expect=3)
    assert mistyped.stdout == "" and "not_found" in mistyped.stderr
    assert broker.millrace("jobs", "ls", "--batch", "mistyped", "--ids").returncode == 3
    broker.millrace("jobs", "ls", "--state", "lost", expect=2)


def test_a_long_list_comes_in_pages_and_survives_a_kill(broker):
    batch = submit(broker, [f"p{i}" for i in range(1, 601)])
    broker.kill()
    broker.start()
    whole = listed(broker, "--batch", batch)
    assert [x["custom_id"] for x in whole] == [f"j{i}" for i in range(1, 601)]
    assert {x["state"] for x in whole} == {"queued"}
    assert len(listed(broker)) == len({x["job"] for x in listed(broker)}) == 600
    assert len(listed(broker, "--stream", "results")) == 600
    assert listed(broker, "--stream", "other") == []


def test_jobs_wait_for_their_start_through_a_restart_and_delay_no_other(broker):
    later = submit(broker, ["later"], "--not-before", "+1h")
    soon = submit(broker, ["soon"], "--not-before", "+4s", name="soon.jsonl")
    assert listed(broker, "--batch", later)[0]["not_before_us"] > 0
    broker.kill()
    broker.start()
    broker.engine()
    now = submit(broker, ["now"], name="now.jsonl")
    wait_until(lambda: counts(broker, now)["completed"] == 1, "the job that waits for nothing")
    wait_until(lambda: counts(broker, soon)["completed"] == 1, "the job whose start has come")
    assert counts(broker, later)["queued"] == 1
    job = broker.millrace("jobs", "ls", "--batch", later, "--ids", expect=0).stdout.strip()
    assert "waits until 20" in broker.millrace("jobs", "ls", "--batch", later, expect=0).stdout
    assert "it starts in" in broker.millrace("status", "--job", job, expect=0).stdout
    # The same command asks for another time, and finds the same job.
    again = broker.millrace("submit", str(broker.folder / "jobs.jsonl"), "--not-before", "+2h",
                            expect=0)
    assert "1 job submitted, which was known already" in again.stderr
    assert "1 cancelled" in broker.millrace("cancel", job, expect=0).stdout


def test_jobs_expire_while_they_wait_and_while_they_run(broker):
    waiting = submit(broker, ["a"], "--deadline", "+2s")
    wait_until(lambda: counts(broker, waiting)["expired"] == 1, "the expiry of the waiting job")
    broker.engine(STUB_DELAY_MS="600000")
    running = submit(broker, ["b"], "--deadline", "+3s", name="b.jsonl")
    wait_until(lambda: counts(broker, running)["expired"] == 1, "the expiry of the running job")
    assert in_state(broker, "expired") == ["j1", "j1"]
    refused = broker.millrace("submit", str(broker.folder / "jobs.jsonl"), "--not-before", "+2h",
                              "--deadline", "+1h", "--batch", "other", expect=1)
    assert "would expire before its not_before_us" in refused.stderr
    for wrong in ("tomorrow", "+2", "2030-02-30T00:00:00Z", "+99999999999d", "-1h"):
        told = broker.millrace("submit", str(broker.folder / "jobs.jsonl"), f"--deadline={wrong}",
                               expect=2)
        assert "--deadline" in told.stderr and "is no time" in told.stderr


def test_a_line_may_name_its_own_times(broker):
    path = broker.folder / "own.jsonl"
    path.write_text('{"prompt": "a", "not_before_us": 4102444800000000}\n{"prompt": "b"}\n')
    batch = json.loads(broker.millrace("submit", str(path), "--not-before", "+1h", "--json",
                                       expect=0).stdout)["batch"]
    own, other = listed(broker, "--batch", batch)
    assert own["not_before_us"] == 4102444800000000
    assert other["not_before_us"] < 4102444800000000


def test_a_job_runs_again_after_an_error_of_the_engine(broker):
    broker.engine(STUB_FAIL_ON="bad", STUB_FAIL_CODE="out_of_memory", STUB_FAIL_TIMES="1")
    batch = submit(broker, ["bad"])
    wait_until(lambda: listed(broker, "--batch", batch)[0].get("error"), "the error")
    waiting = listed(broker, "--batch", batch)[0]
    assert (waiting["state"], waiting["failures"]) == ("queued", 1)
    assert waiting["error"]["code"] == "out_of_memory" and waiting["not_before_us"] > 0
    wait_until(lambda: counts(broker, batch)["completed"] == 1, "the second try's result")
    results = broker.millrace("results", "results", expect=0).stdout.splitlines()
    assert len(results) == 1, "the first try left no entry"


def test_errors_of_the_engine_end_a_job_when_they_are_too_many(broker):
    broker.engine(STUB_FAIL_ON="bad", STUB_FAIL_CODE="internal")
    batch = submit(broker, ["bad"])
    wait_until(lambda: counts(broker, batch)["failed"] == 1, "the last failure")
    job = listed(broker, "--batch", batch)[0]
    assert (job["attempts"], job["failures"], job["error"]["code"]) == (2, 2, "internal")
