"""What the tests of kills share: the real programs on the real model, who is killed when, and what
must have been kept.

Rows in flight are read from the engine itself: it traces each step as it sets it going, to a file
of its own process, so that the last whole line tells, after any kill, how many sequences the step
held that was then under way.
"""
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
ROWS = 8  # in one step: what counts as a busy engine
ENGINE_FLAGS = ["--max-batch", "12"]
ENGINE_HOLDS = 18  # jobs: its batch, and half as many that wait
ENDS_QUERY = "SELECT job, body FROM entries WHERE stream = 'results'"
TAIL_BYTES = 4096


def write_lines(path, seed):
    """Jobs that want from 32 to 96 tokens, so that a fast engine has work left at the last kill.
    Kills hit those that run alone as well: no line may be given up for that."""
    draw = random.Random(seed)
    path.write_text("".join(json.dumps({
        "custom_id": f"c{i}", "prompt": f"Story {i}: the ship", "max_tokens": draw.randint(32, 96),
        "ignore_eos": True, "logprobs": 1, "max_attempts": 50}) + "\n" for i in range(LINES)))


def line_number(job):
    """Of a job's id, `LINE-HASH` or `BATCH/LINE-HASH`."""
    return int(job.split("/")[-1].split("-")[0])


def whole_lines(output):
    """The output's whole lines by input line number."""
    if not output.exists():
        return {}
    text = output.read_bytes()
    lines = text[:text.rfind(b"\n") + 1].splitlines()
    by_number = {line_number(json.loads(x)["id"]): x for x in lines}
    assert len(by_number) == len(lines), "a line is in the output twice"
    return by_number


def committed(folder):
    """Bodies of the results in the ledger by line number, from a copy of its files."""
    with tempfile.TemporaryDirectory() as copy:
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
            return {}  # killed before the tables were there
        finally:
            connection.close()
    ends = {line_number(job): bytes(body) for job, body in rows}
    assert len(ends) == len(rows), "a job has two ends in the ledger"
    return ends


class TracedEngine:
    """A program in the engine's place that is the engine, with its trace in a file by process."""

    def __init__(self, folder):
        self.folder = folder / "traces"
        self.folder.mkdir()
        self.path = folder / "traced-engine"
        self.path.write_text(f"#!/bin/sh\nexec {program('millrace-engine')} \"$@\" "
                             f"--log-json --log-level trace 2> {self.folder}/$$\n")
        self.path.chmod(0o755)

    def rows(self, pid):
        """Sequences in the last step that this process set going; 0: none was, or it ended."""
        path = self.folder / str(pid)
        if not path.exists():
            return 0
        with path.open("rb") as trace:
            trace.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = trace.read().split(b"\n")[:-1]
        steps = [x for x in lines if b'"step under way"' in x]
        return json.loads(steps[-1])["rows"] if steps else 0


class Chaos:
    """Kills `kills` times and checks after each what must have been kept. A set-up gives victims,
    engine_pid(), kill(victim), begin(), finish(), output and ledger_folder."""

    LONGEST_S = 0.5

    def __init__(self, setup, engine, seed):
        self.setup, self.engine = setup, engine
        self.seed, self.random = seed, random.Random(seed)
        self.kills = self.busy_kills = 0
        self.victims = {}
        self.lines, self.ends = {}, {}
        self.finished = 0  # lines, when the last kill came

    def rows(self):
        return self.engine.rows(self.setup.engine_pid())

    def pause(self, kills):
        """A random while, short where the job is ahead of the kills: they must all find work."""
        ahead = len(self.lines) > 0.7 * LINES * self.kills / kills
        time.sleep(self.random.uniform(0, self.LONGEST_S / 10 if ahead else self.LONGEST_S))

    def check_kept(self):
        """What was in the output or in the ledger before is there now, unchanged."""
        ends = committed(self.setup.ledger_folder)
        for number, body in self.ends.items():
            assert ends.get(number) == body, f"line {number} was done again"
        self.ends = ends
        lines = whole_lines(self.setup.output)
        for number in self.lines.keys() & lines.keys():
            assert lines[number] == self.lines[number], f"line {number} was written anew"
        self.lines |= lines

    def go(self, kills, busy_kills):
        print(f"seed {self.seed}")
        self.setup.begin()
        # Most kills wait until the engine is busy, the others come whatever it does.
        waits = [True] * (busy_kills + (kills - busy_kills) // 2)
        waits += [False] * (kills - len(waits))
        self.random.shuffle(waits)
        for i, wait in enumerate(waits):
            if wait:
                wait_until(lambda: self.rows() >= ROWS, f"a step of {ROWS} rows")
            self.pause(kills)
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
