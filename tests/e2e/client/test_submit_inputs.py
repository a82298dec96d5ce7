"""`millrace submit` with several inputs, standard input, a file of errors and a progress line."""
import json
import os

from patience import PATIENCE_S
from programs import completion
from terminals import lines_on_terminal, read_until, start_on_terminal

JOBS = [completion(f"j{i}", f"prompt {i}") for i in range(1, 9)]
TEXT = "".join(line + "\n" for line in JOBS)


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def test_standard_input_submitted_again_is_the_same_batch(broker):
    broker.engine()
    done = broker.millrace("submit", "-", "--wait", text=TEXT, expect=0)
    assert sorted(x["custom_id"] for x in records(done.stdout)) == [f"j{i}" for i in range(1, 9)]
    assert "8 jobs submitted; batch" in done.stderr and "batch stdin-" in done.stderr
    again = broker.millrace("submit", "-", "--wait", "--output", "-", text=TEXT, expect=0)
    assert "all of them known already" in again.stderr and len(records(again.stdout)) == 8
    assert broker.millrace("submit", "-", "-", text=TEXT).returncode == 2


def test_errors_name_the_file_and_may_go_to_a_file_of_their_own(broker, tmp_path):
    broker.engine(STUB_FAIL_ON="prompt 3")
    a, b, errors = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "errors.jsonl"
    a.write_text("\n".join(JOBS[:4]))
    b.write_text(JOBS[4] + "\nbad\n")
    words = ["submit", str(a), str(b), "--errors", str(errors)]
    done = broker.millrace(*words, expect=1)
    assert f"{b} line 2: not valid JSON" in done.stderr
    (bad,) = records(errors.read_text())
    assert (bad["error"]["line"], bad["error"]["message"][:len(str(b))]) == (2, str(b))
    done = broker.millrace(*words, "--wait", expect=1)
    assert sorted(x["custom_id"] for x in records(done.stdout)) == ["j1", "j2", "j4", "j5"]
    assert sorted(x["custom_id"] or "" for x in records(errors.read_text())) == ["", "j3"]
    assert f"Errors: {errors}" in done.stderr
    same = broker.millrace("submit", str(a), "--wait", "-o", str(errors), "--errors", str(errors))
    assert same.returncode == 2 and "same file" in same.stderr


def test_failures_of_an_earlier_call_stay_where_no_result_is_waited_for(broker, tmp_path):
    broker.engine(STUB_FAIL_ON="prompt 3")
    jobs, errors = tmp_path / "jobs.jsonl", tmp_path / "errors.jsonl"
    jobs.write_text(TEXT + "bad\n")
    words = ["submit", str(jobs), "--errors", str(errors)]
    broker.millrace(*words, "--wait", expect=1)
    written = sorted(errors.read_text().splitlines())
    assert sorted(json.loads(x)["custom_id"] or "" for x in written) == ["", "j3"]
    broker.millrace(*words, expect=1)
    assert sorted(errors.read_text().splitlines()) == written
    assert not (tmp_path / "errors.jsonl.new").exists()


def test_a_repeated_custom_id_is_named_with_its_file(broker, tmp_path):
    broker.engine()
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text(JOBS[0] + "\n" + JOBS[1] + "\n")
    b.write_text(JOBS[2] + "\n" + completion("j3", "again") + "\n")
    results = records(broker.millrace("submit", str(a), str(b), "--wait", expect=0).stdout)
    warnings = [x["response"]["body"]["millrace"]["warnings"] for x in results]
    assert sum(warnings, []) == [f"line 1 of {b} has the same custom_id"]


def test_waiting_shows_how_far_it_is(broker, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(completion(f"k{i}", f"p {i}") + "\n" for i in range(12)))
    broker.engine(STUB_DELAY_MS="400", STUB_ROWS="2")
    lines = lines_on_terminal(broker.command("submit", str(jobs), "--wait"), 100)
    progress = [x for x in lines if "/12 done" in x]
    assert len(progress) > 5, lines
    assert any("with the engine" in x and "left" in x for x in progress)
    first_left = next(i for i, x in enumerate(progress) if "left" in x)
    assert not progress[first_left].startswith("0/12"), "no time left before a job has ended"
    assert max(map(len, progress)) < 100
    again = lines_on_terminal(broker.command("submit", str(jobs), "--wait"), 100)
    assert "12 completed, 0 failed" in "".join(again)


def test_without_an_engine_the_progress_says_so(broker, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(TEXT)
    process, master = start_on_terminal(broker.command("submit", str(jobs), "--wait"))
    read_until(master, b"no engine is with the broker")
    process.terminate()
    assert process.wait(PATIENCE_S) == 130
    os.close(master)
