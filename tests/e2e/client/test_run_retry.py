"""`millrace run --retry-failed` runs the failed lines of an earlier run again, and no others."""
import json
import shutil
import signal

from patience import PATIENCE_S
from programs import completion, wait_until


def prepare(run, prompts):
    run.write([completion(f"c{i}", p) for i, p in enumerate(prompts, 1)])


def errors(run):
    """The lines of the output that have an error, with its code."""
    return {n: x["error"]["code"] for n, x in run.results().items() if x["error"]}


def executed(run, since=0):
    return sorted(int(x.split("-")[0]) for x in run.executions("end")[since:])


def test_only_failed_lines_run_again(run):
    prepare(run, ["good", "bad", "good", "bad", "good"])
    run.env |= {"STUB_FAIL_ON": "bad"}
    run.go(expect=1)
    assert errors(run) == {2: "context_exceeded", 4: "context_exceeded"}
    good = {n: x for n, x in run.results().items() if not x["error"]}
    assert "Nothing to do" in run.go(expect=1).stdout, "without the option they stay failed"
    before = len(run.executions("end"))
    again = run.go("--retry-failed", expect=1)  # they fail as before
    assert "2 failed lines are removed from the output and run again" in again.stderr
    assert executed(run, before) == [2, 4] and set(errors(run)) == {2, 4}
    run.env["STUB_FAIL_ON"] = ""
    before = len(run.executions("end"))
    done = run.go("--retry-failed", expect=0)
    assert executed(run, before) == [2, 4] and "0 failed" in done.stdout
    results = run.results()
    assert set(results) == {1, 2, 3, 4, 5}
    assert {n: results[n] for n in good} == good, "finished lines stay as they were"
    before = len(run.executions("end"))
    assert "Nothing to do" in run.go("--retry-failed", expect=0).stdout
    assert executed(run, before) == []


def test_a_line_that_is_wrong_fails_again_and_the_others_run(run):
    run.write([completion("a", "good"), "nonsense", completion("b", "bad")])
    run.env |= {"STUB_FAIL_ON": "bad"}
    run.go(expect=1)
    run.env["STUB_FAIL_ON"] = ""
    run.go("--retry-failed", expect=1)
    assert errors(run) == {2: "invalid_json"} and len(run.results()) == 3


def test_a_retry_that_was_killed_goes_on_with_or_without_the_option(run):
    prepare(run, ["bad"] * 8 + ["good"])
    run.env |= {"STUB_FAIL_ON": "bad"}
    run.go(expect=1)
    run.env |= {"STUB_FAIL_ON": "", "STUB_DELAY_MS": "150", "STUB_ROWS": "1"}
    for options in (["--retry-failed"], ["--retry-failed"], []):
        before = len(run.executions("end"))
        process = run.start(*options)
        wait_until(lambda: len(run.executions("end")) > before, "a result of the retry")
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    run.env["STUB_DELAY_MS"] = "0"
    run.go(expect=0)
    assert errors(run) == {} and len(run.results()) == 9


def test_the_output_may_be_lost_after_a_retry(run):
    prepare(run, ["bad", "good"])
    run.env |= {"STUB_FAIL_ON": "bad"}
    run.go(expect=1)
    run.env["STUB_FAIL_ON"] = ""
    run.go("--retry-failed", expect=0)
    before, results = len(run.executions("end")), run.results()
    shutil.move(run.output, run.folder / "lost")
    run.go(expect=0)  # taken from the ledger, without the failure of before
    assert executed(run, before) == [] and run.results() == results


def test_a_run_that_is_not_done_goes_on_first(run):
    prepare(run, ["bad", "good", "good", "good"])
    run.env |= {"STUB_FAIL_ON": "bad", "STUB_DELAY_MS": "300", "STUB_ROWS": "1"}
    process = run.start()
    wait_until(lambda: '"error":{' in run.output.read_text() if run.output.exists() else False,
               "the failed line")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    run.env |= {"STUB_FAIL_ON": "", "STUB_DELAY_MS": "0"}
    told = run.go("--retry-failed", expect=1)
    assert "lines that have no result yet run first" in told.stderr
    assert set(errors(run)) == {1}
    run.go("--retry-failed", expect=0)
    assert json.loads((run.folder / "results.jsonl.millrace" / "manifest.json").read_text())[
        "retries"] == 1
