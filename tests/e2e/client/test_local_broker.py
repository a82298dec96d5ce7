"""Broker, engine and commands without endpoint options find each other in the user's runtime
folder, which no other user may enter."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from patience import PATIENCE_S

from programs import STUB, completion, program, wait_until


class Here:
    """Programs of one user; only the variable of the runtime folder is set."""

    def __init__(self, folder, runtime):
        self.folder = folder
        self.runtime = pathlib.Path(runtime)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
        self.processes = []

    def start(self, *command, **pipes):
        process = subprocess.Popen(command, cwd=self.folder, env=self.env, text=True, **pipes)
        self.processes.append(process)
        return process

    def broker(self, ledger="ledger"):
        """Starts a broker; returns the process and the line that it announced."""
        process = self.start(program("millrace-broker"), "--ledger", ledger,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if said[-1] == "ready":
                return process, said
        return process, process.stderr.read()

    def engine(self):
        self.start(program("stub_engine"))
        wait_until(lambda: json.loads(self.millrace("status", "--json").stdout)["engines"],
                   "the engine's hello")

    def call(self, name, *words, text=None):
        return subprocess.run([program(name), *words], cwd=self.folder, env=self.env, text=True,
                              input=text, capture_output=True, timeout=PATIENCE_S, check=False)

    def millrace(self, *words, text=None):
        return self.call("millrace", *words, text=text)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def here(tmp_path):
    with tempfile.TemporaryDirectory(prefix="mr-") as runtime:  # paths of pytest are too long
        one = Here(tmp_path, runtime)
        yield one
        one.close()


def test_all_find_each_other_and_nobody_else_does(here):
    _, said = here.broker()
    folder = here.runtime / "millrace"
    assert said == [f"clients ipc://{folder}/clients", f"engines ipc://{folder}/engines",
                    f"doorbell ipc://{folder}/doorbell", "ready"]
    assert folder.stat().st_mode & 0o777 == 0o700
    here.engine()
    jobs = here.folder / "jobs.jsonl"
    jobs.write_text(completion("a", "p") + "\n" + completion("b", "p") + "\n")
    done = here.millrace("submit", str(jobs), "--wait")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    results = here.millrace("results", "results")
    assert results.returncode == 0 and len(results.stdout.splitlines()) == 2
    assert here.millrace("retry", "--batch", "none").returncode != 4
    assert here.millrace("cancel", "--batch", "none").returncode != 4
    assert here.millrace("score", text="hello\n").returncode != 4


def test_a_new_broker_replaces_the_socket_of_a_dead_one(here):
    process, _ = here.broker()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (here.runtime / "millrace" / "clients").exists()
    assert here.millrace("status", "--timeout", "1").returncode == 4
    here.broker()
    here.engine()


def test_a_second_broker_is_refused_and_the_first_goes_on(here):
    here.broker()
    second, said = here.broker("another-ledger")
    assert second.wait(PATIENCE_S) == 3
    assert f"cannot bind ipc://{here.runtime}/millrace/clients" in said
    assert "another process listens there: stop it, or choose another endpoint" in said
    here.engine()


def words_of(name):
    return {"millrace-broker": ["--ledger", "ledger"], "millrace": ["status"],
            "millrace-engine": ["--model", "none.gguf"], "stub_engine": []}[name]


@pytest.mark.parametrize("name", ["millrace-broker", "millrace", "millrace-engine", "stub_engine"])
def test_a_folder_that_others_may_enter_is_refused(here, name):
    (here.runtime / "millrace").mkdir(mode=0o755)
    done = here.call(name, *words_of(name))
    assert done.returncode == 3
    assert f"{here.runtime}/millrace, may be entered by other users" in done.stderr
    assert "XDG_RUNTIME_DIR" in done.stderr


@pytest.mark.parametrize("name", ["millrace-broker", "millrace", "millrace-engine", "stub_engine"])
def test_a_path_that_is_too_long_is_refused(here, name):
    long = here.runtime / ("x" * 100)
    long.mkdir()
    here.env["XDG_RUNTIME_DIR"] = str(long)
    done = here.call(name, *words_of(name))
    assert done.returncode == 2
    assert "usage: the path of ipc://" in done.stderr
    assert "that of a unix socket at most 107" in done.stderr


def test_a_foreign_program_can_compute_the_endpoint(here):
    """A foreign program that computes the endpoint's path as the READMEs do can connect."""
    here.broker()
    here.start(sys.executable, str(STUB), "--broker", f"ipc://{here.runtime}/millrace/engines")
    wait_until(lambda: json.loads(here.millrace("status", "--json").stdout)["engines"],
               "the engine's hello")
