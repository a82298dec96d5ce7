"""The parts that the kill tests share: they start the real programs on the real model, choose what
to kill and when, and check that nothing was lost.

The tests read rows in flight from the engine's own trace. The engine writes a line as it starts
each step, to one file per process. So after any kill, the last whole line tells how many sequences
were in the step under way.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "client"))
from programs import model_path, program, wait_until  # noqa: E402

LINES = 200
ROWS = 8  # an engine with so many rows in a step counts as busy
ENGINE_FLAGS = ["--max-batch", "12"]
ENGINE_HOLDS = 18  # jobs that an engine holds: its batch, and half as many that wait
ENDS_QUERY = "SELECT job, body FROM entries WHERE stream = 'results'"
TAIL_BYTES = 4096


def write_lines(path, seed):
    """Writes jobs of 32 to 96 tokens, so that a fast engine has work left at the last kill. Kills
    also hit jobs that run alone; the broker must not give up a line for that."""
    draw = random.Random(seed)
    path.write_text("".join(json.dumps({
        "custom_id": f"c{i}", "prompt": f"Story {i}: the ship", "max_tokens": draw.randint(32, 96),
        "ignore_eos": True, "logprobs": 1, "max_attempts": 50}) + "\n" for i in range(LINES)))


def line_number(job):
    """Returns the line number in a job's id, `LINE-HASH` or `BATCH/LINE-HASH`."""
    return int(job.split("/")[-1].split("-")[0])


def whole_lines(output):
    """Returns the output's whole lines by input line number."""
    if not output.exists():
        return {}
    text = output.read_bytes()
    lines = text[:text.rfind(b"\n") + 1].splitlines()
    by_number = {line_number(json.loads(x)["id"]): x for x in lines}
    assert len(by_number) == len(lines), "a line is in the output twice"
    return by_number


@contextlib.contextmanager
def held(process):
    """Stops a process, if it lives, for as long as the context lasts."""
    def has_stopped():
        with contextlib.suppress(OSError):  # a thread has ended, or all have
            stats = pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")
            return all(x.read_text().rsplit(")", 1)[1].split()[0] in "TXZ" for x in stats)
        return process.poll() is not None
    process.send_signal(signal.SIGSTOP)
    wait_until(has_stopped, "the stop of a process")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def committed(folder, writer):
    """Returns the results in the ledger by line number, read from a copy of its files. The copy is
    made while the process that writes them is stopped: files of different moments fit together as
    little as those of two ledgers."""
    with tempfile.TemporaryDirectory() as copy:
        with held(writer):
            for path in folder.glob("ledger.sqlite*"):
                if not path.name.endswith("ballast"):
                    shutil.copy(path, copy)
        ledger = pathlib.Path(copy, "ledger.sqlite")
        if not ledger.exists():
            return {}
        connection = sqlite3.connect(ledger)
        try:
            rows = connection.execute(ENDS_QUERY).fetchall()
        except sqlite3.OperationalError:
            return {}  # the broker was killed before it made the tables
        finally:
            connection.close()
    ends = {line_number(job): bytes(body) for job, body in rows}
    assert len(ends) == len(rows), "a job has two ends in the ledger"
    return ends


class TracedEngine:
    """A script that starts the engine with tracing on, and reads the trace of each process."""

    def __init__(self, folder):
        self.folder = folder / "traces"
        self.folder.mkdir()
        self.path = folder / "traced-engine"
        self.path.write_text(f"#!/bin/sh\nexec {program('millrace-engine')} \"$@\" "
                             f"--log-json --log-level trace 2> {self.folder}/$$\n")
        self.path.chmod(0o755)

    def steps(self, pid):
        """Returns the number of steps that the process has begun."""
        path = self.folder / str(pid)
        return path.read_bytes().count(b'"step under way"') if path.exists() else 0

    def rows(self, pid):
        """Returns the number of sequences in the step under way; 0 if there is no such step."""
        path = self.folder / str(pid)
        if not path.exists():
            return 0
        with path.open("rb") as trace:
            trace.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = trace.read().split(b"\n")[:-1]
        steps = [x for x in lines if b'"step under way"' in x]
        return json.loads(steps[-1])["rows"] if steps else 0


class Chaos:
    """Kills processes at random moments and checks after each kill that nothing was lost. A setup
    provides victims, engine_pid(), kill(victim), mend(victim), begin(), finish(), has_ended(),
    output, ledger_folder and the process that writes it, writer().

    A kill that waits for work comes after a random number of the engine's steps, so that a slow or
    busy machine finishes as many lines between two kills as a fast one."""

    MOST_STEPS = 120
    LONGEST_S = 0.5

    def __init__(self, setup, engine, seed):
        self.setup, self.engine = setup, engine
        self.seed, self.random = seed, random.Random(seed)
        self.kills = self.busy_kills = 0
        self.victims = {}
        self.lines, self.ends = {}, {}
        self.finished = 0  # lines that were finished at the last kill

    def rows(self):
        return self.engine.rows(self.setup.engine_pid())

    def wait_for(self, condition, what):
        wait_until(lambda: condition() or self.setup.has_ended(), what)

    def pause_at_work(self, kills):
        """Waits until the engine is busy, and then for some steps; fewer if the job is ahead,
        because each kill must interrupt work."""
        self.wait_for(lambda: self.rows() >= ROWS, f"a step of {ROWS} rows")
        ahead = len(self.ends) > 0.7 * LINES * self.kills / kills
        pid = self.setup.engine_pid()
        most = self.MOST_STEPS // 10 if ahead else self.MOST_STEPS
        steps = self.engine.steps(pid) + self.random.randint(0, most)
        self.wait_for(lambda: self.engine.steps(pid) >= steps, f"{steps} steps")

    def check_kept(self):
        """Checks that the ledger still has each result, and that no result or line has changed."""
        ends = committed(self.setup.ledger_folder, self.setup.writer())
        for number, body in self.ends.items():
            assert ends.get(number) == body, f"line {number} was computed again"
        self.ends = ends
        lines = whole_lines(self.setup.output)
        for number in self.lines.keys() & lines.keys():
            assert lines[number] == self.lines[number], f"line {number} was written again"
        self.lines |= lines

    def go(self, kills, busy_kills):
        print(f"seed {self.seed}")
        self.setup.begin()
        # Most kills wait until the engine is busy; the others come at any moment.
        waits = [True] * (busy_kills + (kills - busy_kills) // 2)
        waits += [False] * (kills - len(waits))
        self.random.shuffle(waits)
        for i, wait in enumerate(waits):
            if wait:
                self.pause_at_work(kills)
            else:
                time.sleep(self.random.uniform(0, self.LONGEST_S))
            victim = self.setup.victims[i % len(self.setup.victims)]
            pid = self.setup.engine_pid()
            assert self.setup.kill(victim), f"{victim} was gone before kill {i}"
            rows = self.engine.rows(pid)
            self.kills += 1
            self.busy_kills += rows >= ROWS
            self.victims.setdefault(victim, []).append(rows)
            self.check_kept()
            self.finished = len(self.ends)
            self.setup.mend(victim)
        self.setup.finish()
        self.check_kept()
        print(f"{self.kills} kills, {self.busy_kills} of them with {ROWS} or more rows, the last "
              f"with {self.finished} lines finished: {self.victims}")
