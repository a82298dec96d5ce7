"""`millrace run` is interrupted, hung up or killed, or its engine dies, hangs or cannot start."""
import os
import signal
import subprocess
import time

import pytest
from patience import PATIENCE_S
from programs import completion, wait_until

GOOD = [completion(f"j{i}", f"prompt {i}") for i in range(1, 9)]


def test_ctrl_c_says_how_to_go_on(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "400", "STUB_ROWS": "1"}
    process = run.start()
    wait_until(lambda: len(run.executions("end")) >= 2, "two results")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "same command goes on" in stderr
    run.env["STUB_DELAY_MS"] = "0"
    run.go(expect=0)
    assert sorted(run.results()) == list(range(1, 9))


def test_a_second_signal_ends_at_once_and_says_so(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "5000", "STUB_ROWS": "1"}
    process = run.start()
    wait_until(lambda: run.executions(), "an engine at work")
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        process.send_signal(number)  # both signals are pending when the process continues
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, stderr
    assert "stopped at once" in stderr and "The same command goes on." in stderr
    run.env["STUB_DELAY_MS"] = "0"
    run.go(expect=0)


def test_a_hangup_under_nohup_does_not_end_the_run(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "300", "STUB_ROWS": "1"}
    process = subprocess.Popen(["nohup", *run.command()], env={**os.environ, **run.env},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: run.executions(), "an engine at work")
    process.send_signal(signal.SIGHUP)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert "8 of 8 jobs done" in stdout


def test_killed_at_any_moment_each_line_comes_once(run):
    run.write([completion(f"j{i}", f"p{i}") for i in range(60)])
    run.env |= {"STUB_DELAY_MS": "60", "STUB_ROWS": "8"}
    for i in range(6):
        process = run.start()
        time.sleep(0.15 + 0.13 * i)
        process.kill()
        process.communicate()
    run.go(expect=0)
    assert sorted(run.results()) == list(range(1, 61))


def test_the_engine_dies_with_its_run(run):
    run.write(GOOD)
    run.env["STUB_DELAY_MS"] = "60000"
    process = run.start()
    wait_until(lambda: run.executions(), "an engine at work")
    process.kill()
    process.communicate()
    wait_until(lambda: not engine_pids(run), "the engine's end", 10)


def engine_pids(run):
    pids = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if str(run.log).encode() in environment and b"stub_engine.py" in command:
            pids.append(int(pid))
    return pids


def test_an_engine_that_dies_is_started_again(run):
    run.write(GOOD)
    run.env |= {"STUB_DELAY_MS": "300", "STUB_ROWS": "2"}
    process = run.start("--json")
    wait_until(lambda: len(run.executions("end")) >= 2, "results")
    for pid in engine_pids(run):
        os.kill(pid, signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, stderr
    assert "engine_died" in stdout
    assert sorted(run.results()) == list(range(1, 9))


def test_a_line_that_kills_the_engine_is_given_up_and_all_others_complete(run):
    run.write(GOOD[:4] + [completion("poison", "deadly")] + GOOD[4:])
    run.env |= {"STUB_ABORT_ON": "deadly", "STUB_DELAY_MS": "50"}
    run.go(expect=1)
    results = run.results()
    assert sorted(results) == list(range(1, 10))
    assert results[5]["error"]["code"] == "engine_died"
    assert all(results[i]["error"] is None for i in results if i != 5)
    assert len(run.executions("abort")) <= 5  # with 9, 4, 2, 1 and 1 suspects


def test_an_engine_that_cannot_start_ends_the_run_with_its_words(run):
    run.write(GOOD)
    run.env["STUB_NO_START"] = "no_device: no OpenCL device here"
    refused = run.go(expect=3)
    assert "no_device: no OpenCL device here" in refused.stderr
    run.engine.unlink()
    assert "--engine" in run.go(expect=3).stderr


def test_a_refused_run_removes_its_files_and_a_failed_one_keeps_its_log(run):
    run.write(GOOD)
    kept = run.folder / "results.jsonl.millrace"
    run.env["STUB_NO_START"] = "no_device: no OpenCL device here"
    assert "engine.log" not in run.go(expect=3).stderr
    assert not run.output.exists() and not kept.exists()
    theirs = kept / "notes" / "plan.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    run.go(expect=3)
    assert theirs.read_text() == "precious"
    assert not run.output.exists() and [x.name for x in kept.iterdir()] == ["notes"]
    for code in ("device_error", "kernel_build", "out_of_memory"):
        run.env["STUB_NO_START"] = f"{code}: it broke"
        failed = run.go(expect=3).stderr
        assert f"{code}: it broke" in failed and f"its whole log is in {kept}/engine.log" in failed
        assert "a new run goes on" in failed
        assert f"{code}: it broke" in (kept / "engine.log").read_text()
    assert theirs.read_text() == "precious"
    del run.env["STUB_NO_START"]
    run.go(expect=0)
    assert sorted(run.results()) == list(range(1, 9))


@pytest.mark.parametrize("code", ["no_device", "device_error"])
def test_a_restart_that_cannot_start_leaves_the_earlier_results(run, code):
    run.write(GOOD)
    run.go(expect=0)
    before, executions = run.output.read_bytes(), run.executions()
    run.env["STUB_NO_START"] = f"{code}: it broke"
    refused = run.go("--restart", expect=3).stderr
    assert code in refused and f"What {run.output} held before --restart is back." in refused
    assert run.output.read_bytes() == before
    del run.env["STUB_NO_START"]
    run.go(expect=0)  # nothing is left to do
    assert run.executions() == executions
    run.go("--restart", expect=0)
    assert sorted(run.results()) == list(range(1, 9)) and run.executions() > executions
    assert not list((run.folder / "results.jsonl.millrace").glob("replaced*"))
    assert not (run.folder / "results.jsonl.replaced").exists()


@pytest.mark.long
@pytest.mark.parametrize("how", ["stopped", "no steps"])
def test_an_engine_that_hangs_is_started_again(run, how):
    """A stopped engine sends no heartbeats, so the lease lapses. An engine without steps sends
    heartbeats without progress."""
    run.write(GOOD[:2] + [completion("slow", "quicksand")] + GOOD[2:])
    run.env |= {"STUB_DELAY_MS": "200"}
    if how == "no steps":
        run.env["STUB_HANG_ON"] = "quicksand"
    process = run.start("--json")
    wait_until(lambda: run.executions(), "an engine at work")
    if how == "stopped":
        os.kill(engine_pids(run)[0], signal.SIGSTOP)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert "engine_hung" in stdout, stderr
    results = run.results()
    assert sorted(results) == list(range(1, 10))
    failed = {i for i, x in results.items() if x["error"]}
    assert failed == (set() if how == "stopped" else {3})
