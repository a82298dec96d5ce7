"""Sends SIGKILL at 50 random moments of jobs of 200 lines, on the real model. Every line must be in
the output exactly once, and nothing that was finished may be computed again.

Half of the kills hit `millrace run` (its broker dies with it) and its engine. The other half hit a
standalone `millrace-broker` and `millrace-engine` with a waiting `millrace submit`, which is killed
as well. After each kill the tests read the finished lines from the ledger itself and the output.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid

from patience import PATIENCE_S

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kills import (  # noqa: E402
    ENGINE_FLAGS, ENGINE_HOLDS, LINES, ROWS, Chaos, TracedEngine, model_path, program, wait_until,
    whole_lines, write_lines)

KILLS = 25       # in each of two tests
BUSY_KILLS = 15  # of them with ROWS or more rows in the step under way


def kill(process):
    """Kills a process; returns False if it had already ended by itself."""
    if process.poll() is not None:
        return False
    process.kill()
    process.wait()
    return True


class EmbeddedSetup:
    """`millrace run`, and the engine that it supervises."""

    victims = ["run", "run", "run", "engine", "run", "run", "run", "run"]

    def __init__(self, folder, engine):
        self.engine = engine
        self.input, self.output = folder / "jobs.jsonl", folder / "results.jsonl"
        self.ledger_folder = folder / "results.jsonl.millrace"
        self.process = None
        self.killed_engine = 0

    def begin(self):
        self.process = subprocess.Popen(
            [program("millrace"), "run", "--model", model_path(), "--engine", self.engine.path,
             "--input", self.input, "--output", self.output, *ENGINE_FLAGS],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def engine_pid(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(OSError):
            words = children.read_text().split()
            return int(words[0]) if words else 0
        return 0

    def kill(self, victim):
        if victim == "run":
            return kill(self.process)
        if self.process.poll() is not None:
            return False
        wait_until(self.engine_pid, "the engine's start")
        self.killed_engine = self.engine_pid()
        os.kill(self.killed_engine, signal.SIGKILL)
        return True

    def writer(self):
        return self.process

    def has_ended(self):
        return self.process.poll() is not None

    def mend(self, victim):
        if victim == "engine":
            wait_until(lambda: self.process.poll() is not None or
                       self.engine_pid() not in (0, self.killed_engine), "another engine")
            if self.process.poll() is None:
                return
            # The first engine of the run died before it could take work, which ended the run.
            assert "engine_failed" in self.process.stderr.read()
        self.process.stderr.close()
        self.begin()

    def finish(self):
        _, said = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, said

    def stop(self):
        kill(self.process)


class FleetSetup:
    """A broker, an engine and a client, each a process that the test starts again."""

    victims = ["broker", "broker", "broker", "engine", "broker", "broker", "broker", "broker"]

    def __init__(self, folder, engine):
        self.engine = engine
        self.folder = folder
        self.input, self.output = folder / "jobs.jsonl", folder / "results.jsonl"
        self.ledger_folder = folder / "ledger"
        # ipc paths are short (107 bytes), pytest's folders are not.
        self.sockets = f"/tmp/mr-{uuid.uuid4().hex[:12]}"
        self.processes = {}
        self.kills = 0

    def endpoint(self, name):
        return f"ipc://{self.sockets}-{name}"

    def command(self, name):
        return {
            "broker": [program("millrace-broker"), "--ledger", self.ledger_folder, "--listen",
                       self.endpoint("clients"), "--listen-engines", self.endpoint("engines"),
                       "--listen-doorbell", self.endpoint("bell"), "--lease-ms", "1000"],
            "engine": [self.engine.path, "--model", model_path(), "--broker",
                       self.endpoint("engines"), *ENGINE_FLAGS],
            "client": [program("millrace"), "submit", self.input, "--wait", "--output",
                       self.output, "--broker", self.endpoint("clients")],
        }[name]

    def start(self, name):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(x) for x in self.command(name)], stdout=subprocess.DEVNULL, stderr=log)

    def begin(self):
        for name in ("broker", "engine", "client"):
            self.start(name)
        wait_until(self.status_shows_rows, f"a status that shows {ROWS} rows")

    def millrace(self, *words):
        return subprocess.run([program("millrace"), *words, "--broker", self.endpoint("clients")],
                              text=True, capture_output=True, check=True).stdout

    def status_shows_rows(self):
        engines = json.loads(self.millrace("status", "--json"))["engines"]
        return any(x["rows"] >= ROWS for x in engines)

    def engine_pid(self):
        return self.processes["engine"].pid

    def kill(self, victim):
        self.kills += 1
        if self.kills % 6 == 0:  # in addition to the kills that count
            assert kill(self.processes["client"]), "the client ended before its job"
            self.start("client")
        return self.processes["client"].poll() is None and kill(self.processes[victim])

    def writer(self):
        return self.processes["broker"]

    def has_ended(self):
        return self.processes["client"].poll() is not None

    def mend(self, victim):
        self.start(victim)
        if victim == "engine":
            # Without this wait, further kills would keep the dead engine's leases from lapsing. In
            # the end all its jobs would be suspects, and run one by one.
            wait_until(lambda: self.leased() <= ENGINE_HOLDS, "the end of the dead engine's leases")

    def leased(self):
        return json.loads(self.millrace("status", "--json"))["counts"]["leased"]

    def finish(self):
        assert self.processes["client"].wait(PATIENCE_S) == 0, (
            self.folder / "client.log").read_text()
        # The stream has all results exactly once, and they equal those that the client wrote.
        lines = self.millrace("results", "results").splitlines()
        assert len(lines) == LINES
        custom_ids = [json.loads(x)["custom_id"] for x in lines]
        assert sorted(custom_ids) == sorted(f"c{i}" for i in range(LINES))

    def stop(self):
        for process in self.processes.values():
            kill(process)
        for name in ("clients", "engines", "bell"):
            pathlib.Path(f"{self.sockets}-{name}").unlink(missing_ok=True)


def check(setup_class, folder, seed):
    engine = TracedEngine(folder)
    setup = setup_class(folder, engine)
    write_lines(setup.input, seed)
    chaos = Chaos(setup, engine, seed)
    with contextlib.ExitStack() as stack:
        stack.callback(setup.stop)
        chaos.go(KILLS, BUSY_KILLS)
    final = whole_lines(setup.output)
    assert sorted(final) == list(range(1, LINES + 1))
    assert all(json.loads(x)["error"] is None for x in final.values())
    assert final == chaos.lines, "a line is missing or has changed"
    assert sorted(chaos.ends) == list(range(1, LINES + 1))
    assert chaos.kills == KILLS
    assert chaos.finished >= LINES // 8, "too few lines were finished that a kill could have lost"
    assert chaos.busy_kills >= BUSY_KILLS, f"{chaos.busy_kills} kills hit {ROWS} rows"


def test_kills_of_run_and_its_engine(tmp_path):
    check(EmbeddedSetup, tmp_path, seed=1)


def test_kills_of_a_broker_and_an_engine_on_their_own(tmp_path):
    check(FleetSetup, tmp_path, seed=2)
