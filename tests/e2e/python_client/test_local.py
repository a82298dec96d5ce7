"""run(): a broker and an engine as child processes, watched, and ended with the program."""
import multiprocessing
import os
import signal
import subprocess
import time
from concurrent.futures import wait

import millrace
import pytest
from client_place import BIN, until
from millrace import errors
from millrace.local import STOP_S
from patience import PATIENCE_S

STUB = {"programs": BIN, "engine": BIN / "stub_engine"}
PROGRAM = """
import os, sys, time
import millrace
local = millrace.run("M.gguf", folder=sys.argv[1], programs=sys.argv[2],
                     engine=sys.argv[2] + "/stub_engine")
print(local.generate("x").text, flush=True)
if sys.argv[3] == "fork":
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    print(child, flush=True)
if sys.argv[3]:
    time.sleep(1000)
"""


def children(folder):
    """The processes, of whatever parent, that name the folder or its ledger."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if str(folder).encode() in b" ".join(words) and b"-c" not in words:
            found[int(name)] = os.path.basename(words[0].decode())
    return found


def has_drained(folder):
    """Whether the broker has ended by itself, as the last line of its log tells."""
    return " ended submitted=" in (folder / "broker.log").read_text()


def test_prompts_run_and_everything_ends(place, tmp_path):
    with millrace.run("M.gguf", folder=tmp_path / "state", max_batch=7, **STUB) as local:
        assert [r.text for r in local.map(["a", "b"])] == ["a stub's answer"] * 2
        assert local.status().engines[0].model == "stub"
        assert "millrace-broker" in children(tmp_path / "state").values()
    assert not children(tmp_path / "state") and has_drained(tmp_path / "state")
    assert {"broker.log", "engine.log", "ledger"} <= set(os.listdir(tmp_path / "state"))


def test_a_temporary_folder_goes_with_it(place):
    with millrace.run("M.gguf", **STUB) as local:
        assert local.generate("x").ok and os.path.isdir(local.folder)
        folder = local.folder
    assert not os.path.exists(folder)


def test_results_are_there_when_the_folder_is_run_again(place, tmp_path):
    first = []
    for _ in range(2):
        with millrace.run("M.gguf", folder=tmp_path / "state", **STUB) as local:
            first.append([r.number for r in local.map(["a", "b"], name="again")])
    assert first[0] == first[1] and sorted(first[0]) == [1, 2]


@pytest.mark.parametrize("program", ["millrace-broker", "stub_engine"])
def test_what_dies_is_started_again(place, tmp_path, program):
    folder = tmp_path / "state"
    with millrace.run("M.gguf", folder=folder, **STUB) as local:
        engine = until(lambda: pids_of(local), "engine")
        given = 0
        for _ in local.map((f"p{i}" for i in range(2_000)), window=50):
            given += 1
            if given == 300:
                broker = next(p for p, n in children(folder).items() if n == "millrace-broker")
                os.kill(broker if program == "millrace-broker" else engine, signal.SIGKILL)
        assert given == 2_000
        until(lambda: local.deaths == 1, "death")


def pids_of(local):
    """The engine's process, which its name tells."""
    engines = local.status().engines
    return int(engines[0].name.rpartition(":")[2]) if engines else None


@pytest.mark.parametrize("how", ["end", "kill"])
def test_the_children_end_with_the_program(place, tmp_path, how):
    program = place.python("-c", PROGRAM, tmp_path / "state", BIN, "wait" if how == "kill" else "")
    assert program.stdout.readline() == "a stub's answer\n"
    if how == "kill":
        assert children(tmp_path / "state")
        program.kill()
    program.wait()
    until(lambda: not children(tmp_path / "state"), "end of the children")


def test_the_children_end_with_a_program_whose_forks_live_on(place, tmp_path):
    """As the workers of a data loader, which hold the other end of the supervisor's input."""
    program = place.python("-c", PROGRAM, tmp_path / "state", BIN, "fork")
    assert program.stdout.readline() == "a stub's answer\n"
    forked = int(program.stdout.readline())
    try:
        assert children(tmp_path / "state")
        program.kill()
        program.wait()
        until(lambda: not children(tmp_path / "state"), "end of the children")
    finally:
        os.kill(forked, signal.SIGKILL)


def test_close_does_not_wait_for_forks_of_the_program(place, tmp_path):
    local = millrace.run("M.gguf", folder=tmp_path / "state", **STUB)
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    forked.start()
    try:
        begun = time.monotonic()
        local.close()
        assert time.monotonic() - begun < STOP_S / 2
        assert local._children.process.returncode == 0  # it was not killed
        assert not children(tmp_path / "state")
        assert has_drained(tmp_path / "state")
    finally:
        forked.kill()
        forked.join()


def test_the_children_end_when_their_supervisor_is_killed(place, tmp_path):
    local = millrace.run("M.gguf", folder=tmp_path / "state", **STUB)
    waiting = local._link.ask("status_request", {})
    local._children.process.kill()
    until(lambda: not children(tmp_path / "state"), "end of the children")
    assert wait([waiting], PATIENCE_S / 2).done
    for use in (lambda: local.submit("x"), lambda: local.generate("x")):
        with pytest.raises(errors.UnreachableError, match="supervisor .* has ended .*-9") as told:
            use()  # it waited for five minutes for what nobody starts again
        assert "millrace.run" in told.value.hint
    local.close()


def test_a_supervisor_that_ends_before_the_engine_has_joined_is_told(place, tmp_path):
    (tmp_path / "engine").write_text("#!/bin/sh\nkill -9 $PPID\n")
    (tmp_path / "engine").chmod(0o755)
    begun = time.monotonic()
    with pytest.raises(errors.UnreachableError, match="supervisor"):
        millrace.run("M.gguf", folder=tmp_path / "state", programs=BIN, engine=tmp_path / "engine",
                     timeout_s=PATIENCE_S)
    assert time.monotonic() - begun < PATIENCE_S / 2


def test_a_program_that_is_missing_or_does_not_start_is_told(place, tmp_path):
    with pytest.raises(errors.NotFoundError, match="millrace-broker"):
        millrace.run("M.gguf", programs=tmp_path)
    with pytest.raises(errors.EngineFailedError, match="--nosuch"):
        millrace.run("M.gguf", nosuch=1, **STUB)
    with pytest.raises(errors.EngineFailedError, match="gguf_unreadable|cannot|M.gguf"):
        millrace.run(tmp_path / "M.gguf", programs=BIN)
    with millrace.run("M.gguf", folder=tmp_path / "state", **STUB):
        with pytest.raises(errors.EngineFailedError, match="ledger_in_use"):
            millrace.run("M.gguf", folder=tmp_path / "state", **STUB)


@pytest.mark.parametrize("name", ["millrace-broker", "millrace-engine"])
def test_a_program_that_dies_again_and_again_is_not_waited_for(bare_place, tmp_path, name):
    for program, stub in (("millrace-broker", "millrace-broker"),
                          ("millrace-engine", "stub_engine")):
        (tmp_path / program).symlink_to(BIN / stub)
    (tmp_path / name).unlink()
    (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / name).chmod(0o755)
    (tmp_path / "state").mkdir()
    for log in ("broker.log", "engine.log"):
        (tmp_path / "state" / log).write_text("out of luck\n")
    with pytest.raises(errors.TimedOutError, match="no (broker|engine) .*\nout of luck"):
        millrace.run("M.gguf", folder=tmp_path / "state", programs=tmp_path, timeout_s=2)


def test_a_folder_that_cannot_be_made_is_told(place, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    before = os.listdir(place.runtime)
    with pytest.raises(errors.IoError, match="cannot make the folder .*file/state"):
        millrace.run("M.gguf", folder=tmp_path / "file" / "state", **STUB)
    assert os.listdir(place.runtime) == before
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nosuch"))
    with pytest.raises(errors.IoError, match="nosuch") as caught:
        millrace.run("M.gguf", **STUB)
    assert "XDG_RUNTIME_DIR" in caught.value.hint


def test_ctrl_c_reaches_the_program_alone(place, tmp_path):
    """As from a terminal: the signal goes to the whole process group."""
    program = place.python("-c", PROGRAM, tmp_path / "state", BIN, "wait", start_new_session=True,
                           stderr=subprocess.PIPE)
    assert program.stdout.readline() == "a stub's answer\n"
    time.sleep(0.1)
    os.killpg(program.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in program.communicate()[1]
    until(lambda: not children(tmp_path / "state"), "end of the children")
    assert "died" not in (tmp_path / "state" / "engine.log").read_text()
