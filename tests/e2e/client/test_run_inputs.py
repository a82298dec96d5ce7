"""`millrace run` with several inputs, standard input, standard output and a file of errors."""
import json
import os
import signal
import subprocess

from patience import PATIENCE_S
from programs import completion, program, wait_until

JOBS = [completion(f"j{i}", f"prompt {i}") for i in range(1, 9)]
TEXT = "".join(line + "\n" for line in JOBS)


def go(run, *words, text=None, **env):
    """Runs the command with other inputs and outputs than those of `run`."""
    return subprocess.run(
        [program("millrace"), "run", "--model", "stub", "--engine", str(run.engine), *words],
        env={**os.environ, **run.env, **env}, text=True, capture_output=True, timeout=PATIENCE_S,
        check=False, **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}))


def records(text):
    return [json.loads(line) for line in text.splitlines()]


def test_several_inputs_are_one_and_errors_name_the_file(run):
    a, b = run.folder / "a.jsonl", run.folder / "b.jsonl"
    a.write_text("\n".join(JOBS[:3]))  # without a newline at its end
    b.write_text(JOBS[3] + "\nbad\n" + completion("j1", "again") + "\n")
    words = ["--input", str(a), "--input", str(b), "--output", str(run.output)]
    done = go(run, *words)
    assert done.returncode == 1, done.stderr
    assert f"  {b} line 2: invalid_json" in done.stdout
    assert f"{a} line 1 (j1): line 3 of {b} has the same" in done.stdout.replace("\n", " ") or \
        f"{b} line 3 (j1): line 1 of {a} has the same custom_id" in done.stdout
    results = records(run.output.read_text())
    assert len(results) == 6
    (bad,) = [x for x in results if x["error"]]
    assert bad["error"]["line"] == 2 and bad["error"]["message"].startswith(f"{b}: ")
    assert "Nothing to do" in go(run, *words).stdout
    both = go(run, "--input", str(a), str(b), "--output", str(run.output))
    assert "Nothing to do" in both.stdout, "one --input may name several files"
    summary = records(go(run, *words[:4], "--output", f"{run.output}.2", "--json").stdout)[-1]
    assert [(x["file"], x["line"]) for x in summary["errors"]] == [(str(b), 2)]


def test_files_without_a_job_are_told(run):
    empty, blank = run.folder / "empty.jsonl", run.folder / "blank.jsonl"
    empty.write_text("")
    blank.write_text("\n \n")
    one = ["--input", str(empty), "--output", str(run.output)]
    for words, says in ((one, f"{empty} holds no line with a job"), (one, "holds no line"),
                        (["--input", str(empty), str(blank), "--output", f"{run.output}.2"],
                         f"{empty}, {blank} hold no line with a job"),
                        (["--input", "-", "--output", "-"], "standard input holds no line")):
        done = go(run, *words, text="")
        assert done.returncode == 0 and says in done.stderr, done.stderr
    told = records(go(run, *one, "--json").stderr)
    assert [x["event"] for x in told] == ["empty"], told
    run.input.write_text(JOBS[0] + "\n")
    done = go(run, "--input", str(empty), str(run.input), "--output", f"{run.output}.3")
    assert done.returncode == 0 and "no line with a job" not in done.stderr


def test_a_line_may_bring_a_note_of_its_own(run):
    a, b = run.folder / "a.jsonl", run.folder / "b.jsonl"
    a.write_text(JOBS[0] + "\n")
    b.write_text(json.dumps({"custom_id": "x", "prompt": "p", "metadata": {
        "millrace.duplicate_of_line": "no number"}}) + "\n")
    done = go(run, "--input", str(a), str(b), "--output", str(run.output))
    assert done.returncode == 0, done.stderr
    assert len(records(run.output.read_text())) == 2


def test_standard_input_is_kept_so_that_the_same_command_goes_on(run):
    words = ["--input", "-", "--output", str(run.output)]
    slow = {"STUB_DELAY_MS": "300", "STUB_ROWS": "1"}
    process = subprocess.Popen(
        [program("millrace"), "run", "--model", "stub", "--engine", str(run.engine), *words],
        env={**os.environ, **run.env, **slow}, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, text=True)
    process.stdin.write(TEXT)
    process.stdin.close()
    wait_until(lambda: run.executions("end"), "a result")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    other = go(run, *words, text=TEXT.replace("prompt 5", "another"))
    assert (other.returncode, "line 5 of the input has changed" in other.stderr) == (3, True)
    first = run.executions("end")
    done = go(run, *words)  # whatever made the jobs is gone
    assert done.returncode == 0, done.stderr
    assert sorted(run.results()) == list(range(1, 9))
    assert len(set(run.executions("end"))) == 8 and run.executions("end")[:len(first)] == first
    assert "Nothing to do" in go(run, *words, text=TEXT).stdout
    assert not (run.folder / "results.jsonl.millrace" / "stdin.new").exists()


def test_a_restart_takes_what_standard_input_holds_now(run):
    words = ["--input", "-", "--output", str(run.output)]
    assert go(run, *words, text=TEXT).returncode == 0
    assert go(run, *words, "--restart", text=JOBS[0]).returncode == 0
    assert len(run.results()) == 1
    assert go(run, *words, "--restart").returncode == 0, "the kept copy is used"
    assert len(run.results()) == 1


def test_results_may_go_to_standard_output(run):
    run.write([*JOBS, "bad"])
    before = sorted(os.listdir(run.folder))
    done = go(run, "--input", str(run.input), "--output", "-", TMPDIR=str(run.folder))
    assert done.returncode == 1
    results = records(done.stdout)
    assert len(results) == 9 and sum(x["error"] is not None for x in results) == 1
    assert "9 of 9 jobs done, 1 failed" in done.stderr
    left = set(os.listdir(run.folder)) - set(before)
    assert left <= {"engine-log"}, "nothing is left behind"
    piped = go(run, "-i", "-", "-o", "-", "--json", text=TEXT)
    assert len(records(piped.stdout)) == 8
    assert json.loads(piped.stderr.splitlines()[-1])["event"] == "summary"


def test_a_run_that_prints_cannot_go_on_and_says_so(run):
    run.write(JOBS)
    refused = go(run, "--input", str(run.input), "--output", "-", "--restart")
    assert refused.returncode == 2 and "begins anew" in refused.stderr
    process = subprocess.Popen(
        [program("millrace"), "run", "--model", "stub", "--engine", str(run.engine), "--input",
         str(run.input), "--output", "-"],
        env={**os.environ, **run.env, "STUB_DELAY_MS": "300", "STUB_ROWS": "1"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "name a file for --output if it should" in errors


def test_failed_lines_may_go_to_a_file_of_their_own(run):
    run.write([*JOBS, "bad"])
    errors = run.folder / "errors.jsonl"
    words = ["--input", str(run.input), "--output", str(run.output), "--errors", str(errors)]
    fails = {"STUB_FAIL_ON": "prompt 3"}
    done = go(run, *words, **fails)
    assert done.returncode == 1 and f"Errors: {errors}" in done.stdout
    assert [x["error"] for x in records(run.output.read_text())] == [None] * 7
    assert sorted(x["custom_id"] or "" for x in records(errors.read_text())) == ["", "j3"]
    again = go(run, *words)
    assert "2 failed: in " in again.stdout and "Nothing to do" in again.stdout
    without = go(run, *words[:4])
    assert without.returncode == 3 and "--errors was" in without.stderr
    retried = go(run, *words, "--retry-failed")
    assert retried.returncode == 1, retried.stderr
    assert len(records(run.output.read_text())) == 8
    assert [x["error"]["code"] for x in records(errors.read_text())] == ["invalid_json"]


def test_files_that_would_overwrite_each_other_are_refused(run):
    run.write(JOBS)
    for words in (["--errors", str(run.output)], ["--errors", str(run.input)], ["--errors", "-"]):
        done = go(run, "--input", str(run.input), "--output", str(run.output), *words)
        assert done.returncode == 2, words
    twice = go(run, "--input", "-", "--input", "-", "--output", str(run.output), text=TEXT)
    assert twice.returncode == 2 and "named twice" in twice.stderr
    assert run.input.read_text() == TEXT
