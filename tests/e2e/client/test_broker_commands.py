"""submit, results, status, cancel, retry and score with a running broker and a stub engine."""
import json
import signal
import subprocess
import time
from pathlib import Path

from patience import PATIENCE_S
from programs import completion, program, wait_until


def write_jobs(broker, count, name="jobs.jsonl"):
    path = broker.folder / name
    path.write_text("".join(completion(f"j{i}", f"p{i}") + "\n" for i in range(1, count + 1)))
    return str(path)


def lines(text):
    return [json.loads(x) for x in text.splitlines()]


def counts(broker):
    return json.loads(broker.millrace("status", "--json", expect=0).stdout)["counts"]


def test_submit_and_wait_prints_each_result_once(broker):
    broker.engine()
    jobs = write_jobs(broker, 30)
    done = broker.millrace("submit", jobs, "--wait", expect=0)
    assert sorted(x["custom_id"] for x in lines(done.stdout)) == sorted(
        f"j{i}" for i in range(1, 31))
    # Submitting the same file again finds known jobs, gives the same results and computes nothing.
    again = broker.millrace("submit", jobs, "--wait", expect=0)
    assert sorted(again.stdout.splitlines()) == sorted(done.stdout.splitlines())
    assert counts(broker)["completed"] == 30


def test_submit_then_results_from_any_number(broker):
    broker.engine()
    jobs = write_jobs(broker, 20)
    submitted = json.loads(broker.millrace("submit", jobs, "--json", expect=0).stdout)
    assert (submitted["submitted"], submitted["known"], submitted["refused"]) == (20, 0, 0)
    wait_until(lambda: counts(broker)["completed"] == 20, "all jobs' end")
    everything = lines(broker.millrace("results", "results", expect=0).stdout)
    assert len({x["custom_id"] for x in everything}) == 20
    tail = lines(broker.millrace("results", "results", "--from", "15", expect=0).stdout)
    assert tail == everything[14:]
    mine = broker.millrace("results", "results", "--batch", submitted["batch"], expect=0)
    assert lines(mine.stdout) == everything


def test_a_cursor_goes_on_where_it_stopped(broker):
    broker.engine()
    broker.millrace("submit", write_jobs(broker, 5), "--wait", expect=0)
    first = broker.millrace("results", "results", "--cursor", "c", expect=0).stdout
    assert len(lines(first)) == 5
    assert broker.millrace("results", "results", "--cursor", "c", expect=0).stdout == ""


def test_refused_lines_are_named_and_the_rest_is_submitted(broker):
    path = broker.folder / "mixed.jsonl"
    path.write_text(completion("a", "p") + "\nnonsense\n")
    done = broker.millrace("submit", str(path), expect=1)
    assert "line 2" in done.stderr and "invalid_json" in done.stderr
    assert counts(broker)["queued"] == 1


def test_a_line_that_the_broker_refuses_keeps_its_custom_id(broker):
    path = broker.folder / "late.jsonl"
    path.write_text('{"custom_id": "late", "prompt": "p", "deadline_us": 5}\n')
    told = lines(broker.millrace("submit", str(path), "--wait", expect=1).stdout)
    assert [(x["custom_id"], x["error"]["line"]) for x in told] == [("late", 1)]


def test_a_file_that_holds_something_else_is_not_overwritten(broker):
    jobs, kept = write_jobs(broker, 2), broker.folder / "kept.txt"
    for precious in ("precious\n", '{"id":"a","prompt":"p"}\n', '{"id":1,"response":"r"}\n',
                     '{"id": "b", "response": {"status_code": 200}}\n', "\n",
                     '{"id":"a"}\n{"id":"b","response":{"status_code":200}}\n'):
        kept.write_text(precious)
        refused = broker.millrace("submit", jobs, "--wait", "-o", str(kept), expect=3)
        assert "conflict" in refused.stderr and kept.read_text() == precious
    kept.write_text("")
    broker.engine()
    with Path(jobs).open("a") as file:  # the long name: refused, and the first in the results
        file.write(json.dumps({"custom_id": "x" * 5000, "prompt": "p"}) + "\n")
    for _ in range(2):  # the second time, the command writes the same results again
        broker.millrace("submit", jobs, "--wait", "-o", str(kept), expect=1)
        assert sorted(x["error"] is None for x in lines(kept.read_text())) == [False, True, True]
    results = kept.read_text()
    away = subprocess.run([program("millrace"), "submit", jobs, "--wait", "-o", str(kept),
                           "--broker", "tcp://127.0.0.1:9", "--timeout", "1"], timeout=PATIENCE_S,
                          check=False)
    assert away.returncode == 4
    assert kept.read_text() == results  # no broker answered, so the results stay


def test_lines_with_a_batch_of_their_own_are_reported(broker):
    path = broker.folder / "own.jsonl"
    path.write_text('{"prompt": "p"}\n{"prompt": "q", "batch": "other"}\n')
    told = broker.millrace("submit", str(path), expect=0).stderr
    assert "a batch or a stream of their own" in told
    assert f"millrace results results --follow --broker {broker.clients}" in told
    assert "stream of their own" not in broker.millrace("submit", str(path), "--batch", "other",
                                                       expect=0).stderr


def test_lines_with_ids_and_streams_of_their_own_are_reported(broker):
    path = broker.folder / "own.jsonl"
    path.write_text('{"id": "w1", "prompt": "p", "stream": "s"}\n')
    told = broker.millrace("submit", str(path), expect=0).stderr
    assert "a batch or a stream of their own are in that one" in told
    path.write_text('{"id": "w1", "prompt": "q", "stream": "s"}\n')
    told = broker.millrace("submit", str(path), "--batch", "new", expect=1).stderr
    assert "give the line another id" in told and "another --batch" not in told
    assert "Read the results" not in told  # there are none


def test_cancel_and_status_of_a_batch(broker):
    jobs = write_jobs(broker, 10)
    batch = json.loads(broker.millrace("submit", jobs, "--json", expect=0).stdout)["batch"]
    told = broker.millrace("cancel", "--batch", batch, expect=0).stdout
    assert told == "10 cancelled, 0 running and asked to stop\n"
    status = json.loads(broker.millrace("status", "--batch", batch, "--json", expect=0).stdout)
    assert status["counts"]["cancelled"] == 10
    for what in ("--batch", "--stream", "--job"):
        unknown = broker.millrace("status", what, "nobody", expect=3)
        assert "not_found" in unknown.stderr and "nobody" in unknown.stderr
    ended = lines(broker.millrace("results", "results", expect=0).stdout)
    assert {x["error"]["code"] for x in ended} == {"cancelled"}
    job = ended[0]["id"]
    assert "cancelled" in broker.millrace("status", "--job", job, expect=0).stdout
    left = broker.millrace("retry", job, expect=0)  # stays cancelled; the hint says what to do
    assert "0 queued again, 1 had not failed" in left.stdout and "--batch" in left.stderr
    again = broker.millrace("submit", jobs, "--wait", expect=1)
    assert "0 completed, 10 failed" in again.stderr
    assert "10 of those that failed were cancelled" in again.stderr
    assert "10 of those that were known already were cancelled" in broker.millrace(
        "submit", jobs, expect=0).stderr
    none = broker.millrace("retry", "--batch", batch, expect=0)
    assert none.stdout == "0 queued again\n" and "only failed jobs" in none.stderr
    assert f"results results --batch {batch}2 --follow" in broker.millrace(
        "submit", jobs, "--batch", batch + "2", expect=0).stderr
    assert counts(broker)["queued"] == 10
    assert "1 unknown" in broker.millrace("cancel", "no-such-job", expect=1).stdout
    assert "1 unknown" in broker.millrace("retry", "no-such-job", expect=1).stdout
    broker.millrace("cancel", expect=2)


def test_retry_queues_a_failed_job_again(broker):
    path = broker.folder / "one.jsonl"
    path.write_text('{"id": "bad", "prompt": "deadly", "max_attempts": 1}\n')
    broker.millrace("submit", str(path), expect=0)
    while counts(broker)["failed"] == 0:  # the engine dies once with other jobs, then with one
        engine = broker.engine(STUB_ABORT_ON="deadly")
        wait_until(lambda: counts(broker)["failed"] == 1 or engine.poll() is not None, "an end")
        wait_until(lambda: counts(broker)["leased"] == 0, "the dead engine's lease to lapse")
        if engine.poll() is None:
            engine.kill()
            engine.wait()
    assert "1 queued again" in broker.millrace("retry", "bad", expect=0).stdout
    broker.engine()
    wait_until(lambda: counts(broker)["completed"] == 1, "the retried job's end")


def test_an_absent_broker_is_exit_code_4(tmp_path, broker):
    broker.clients = f"ipc://{tmp_path}/nobody"
    jobs = write_jobs(broker, 1)
    for words in (("status",), ("cancel", "x"), ("submit", jobs), ("submit", jobs, "--wait"),
                  ("results", "results")):
        done = broker.millrace(*words, "--timeout", "1", expect=4)
        assert "--broker" in done.stderr
    assert broker.millrace("status", "--broker", "nonsense", "--timeout", "1").returncode in (2, 4)


def test_a_client_reports_and_survives_the_absence_of_its_broker(broker):
    broker.engine(STUB_DELAY_MS="100", STUB_ROWS="2")
    jobs = write_jobs(broker, 40)
    process = subprocess.Popen(broker.command("submit", jobs, "--wait"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: counts(broker)["completed"] >= 3, "some results")
    broker.kill()
    time.sleep(1.5)
    broker.start()
    broker.engine(STUB_DELAY_MS="5")
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert "trying again" in stderr and "back" in stderr
    assert sorted(x["custom_id"] for x in lines(stdout)) == sorted(f"j{i}" for i in range(1, 41))


def test_score_through_a_broker(broker):
    broker.engine()
    done = broker.millrace("score", "--ids", text="[1, 2, 3]\n[4, 5]\nnonsense\n")
    assert done.returncode == 1
    scored = lines(done.stdout)
    assert scored[0]["token_ids"] == [1, 2, 3]
    assert scored[0]["logprobs"] == [None, -0.5, -0.5]
    assert scored[0]["sum"] == -1.0
    assert scored[1]["scored_tokens"] == 1
    assert scored[2]["error"]["code"] == "invalid_value"


def test_a_reader_that_leaves_ends_results_quietly(broker):
    broker.engine()
    broker.millrace("submit", write_jobs(broker, 3), "--wait", expect=0)
    process = subprocess.Popen(broker.command("results", "results", "--follow"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    broker.millrace("submit", write_jobs(broker, 2, "more.jsonl"), "--wait", expect=0)
    assert process.wait(PATIENCE_S) == -signal.SIGPIPE
    assert process.stderr.read() == ""


def test_results_of_jobs_that_are_still_to_end_are_none_yet(broker):
    jobs = write_jobs(broker, 3)
    batch = json.loads(broker.millrace("submit", jobs, "--json", expect=0).stdout)["batch"]
    for words in (("results", "results"), ("results", "results", "--batch", batch)):
        done = broker.millrace(*words, expect=0)
        assert done.stdout == "" and "holds no result yet; jobs still to end: 3" in done.stderr
        assert json.loads(broker.millrace(*words, "--json", expect=0).stderr)["event"] == "empty"
    unknown = broker.millrace("results", "results", "--batch", "nosuch", expect=3)
    assert "not_found" in unknown.stderr


def test_status_of_an_engine_that_does_not_report_its_kv(broker):
    broker.engine(STUB_KV="")
    status = broker.millrace("status", expect=0).stdout
    assert "kv unknown  leases" in status and "(0.0x)" not in status


def test_many_warnings_do_not_hide_what_jobs_wait_for(broker):
    path = broker.folder / "typos.jsonl"
    path.write_text("".join(completion(f"j{i}", "p", kv="k5v3", **{f"typo{i}": 1}) + "\n"
                            for i in range(25)))
    done = broker.millrace("submit", str(path), expect=0)
    assert done.stderr.count("unknown field") == 20
    assert "waits: " in done.stderr and "k5v3" in done.stderr


def test_unknown_names_are_reported(broker):
    broker.engine()
    jobs = write_jobs(broker, 2)
    batch = json.loads(broker.millrace("submit", jobs, "--json", expect=0).stdout)["batch"]
    wait_until(lambda: counts(broker)["completed"] == 2, "the jobs' end")
    for words in (("results", "nosuch"), ("results", "results", "--batch", "nosuch"),
                  ("cancel", "--batch", "nosuch"), ("retry", "--batch", "nosuch")):
        done = broker.millrace(*words, expect=3)
        assert "not_found" in done.stderr and "nosuch" in done.stderr and done.stdout == ""
        told = json.loads(broker.millrace(*words, "--json", expect=3).stderr)
        assert told["code"] == "not_found" and told["hint"]
    # The broker knows a batch whose jobs have all ended: cancelling it does nothing and succeeds.
    assert "0 cancelled" in broker.millrace("cancel", "--batch", batch, expect=0).stdout
    assert broker.millrace("retry", "--batch", batch, expect=0).stdout == "0 queued again\n"
    for verb in ("cancel", "retry"):
        done = broker.millrace(verb, "no-such-job", expect=1)
        assert "holds no job with that id" in done.stderr and broker.clients in done.stderr
    job = lines(broker.millrace("results", "results", expect=0).stdout)[0]["id"]
    for words, says in ((("cancel", "a", "c"), "2 of the ids (a, c):"),
                        (("retry", "a", job, "b"), "2 of the ids (a, b):"),
                        (("cancel", job, "a"), "one of the ids (a):"),
                        (("cancel", job, *"abcdefg"), "7 of the ids (a, b, c, d, e and others):"),
                        (("jobs", "drop", job, "a"), "one of the ids:")):
        done = broker.millrace(*words, expect=1)
        assert f"holds no job with {says} a result names" in done.stderr, done.stderr
    # A command that follows may start before the stream exists.
    process = subprocess.Popen(broker.command("results", "later", "--follow"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    path = broker.folder / "later.jsonl"
    path.write_text(completion("late", "p") + "\n")
    try:
        assert "stream later holds no result yet; waiting for it" in process.stderr.readline()
        broker.millrace("submit", str(path), "--stream", "later", expect=0)
        assert json.loads(process.stdout.readline())["custom_id"] == "late"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def test_submit_reports_unknown_fields_at_once_and_explains_a_conflict(broker):
    path = broker.folder / "typo.jsonl"
    path.write_text("".join(completion(f"j{i}", "p", temprature=0) + "\n" for i in range(3)))
    done = broker.millrace("submit", str(path), expect=0)
    assert done.stderr.count("unknown field 'temprature'") == 1, "each warning must come once"
    assert "typo.jsonl line 1: " in done.stderr and "--strict" in done.stderr
    assert "3 lines with warnings, the first at " in done.stderr
    told = broker.millrace("submit", str(path), "--json", expect=0)
    assert json.loads(told.stdout)["warned"] == 3
    assert json.loads(told.stderr.splitlines()[0])["event"] == "warning"
    path.write_text(completion("j", "p") + "\n")
    assert "warning" not in broker.millrace("submit", str(path), expect=0).stderr
    done = broker.millrace("submit", str(path), "--strict", expect=1)
    assert "conflict" in done.stderr and "--strict" in done.stderr and "--batch" in done.stderr


def test_ctrl_c_ends_the_wait_for_a_broker_that_is_absent(tmp_path, broker):
    broker.clients = f"ipc://{tmp_path}/nobody"
    jobs, ids = write_jobs(broker, 1), tmp_path / "ids"
    ids.write_text("[1, 2]\n")
    for words in (("results",), ("results", "--follow"), ("submit", jobs),
                  ("submit", jobs, "--wait"), ("score", "--ids", str(ids))):
        process = subprocess.Popen(broker.command(*words, "--timeout", "600"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert "trying again" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130 and "stopped by a signal" in stderr, words
