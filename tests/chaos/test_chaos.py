"""`millrace run` and its engine killed with SIGKILL at random moments of a job of 200 lines: at the
end every line stands in the output exactly once, and nothing that was finished is done again.

What was finished is asked of the ledger itself after each kill (a copy of its files is read), and
of the output: the line that was there, or the result that was committed, must be the one at the
end, to the byte or by the moment it was committed. The broker lives inside `run` and dies with it.
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

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e" / "client"))
from programs import Run, model_path, program  # noqa: E402

LINES = 200
KILLS = 50
IN_FLIGHT_KILLS = 30
ROWS = 8
ENDS_QUERY = "SELECT job, body FROM entries WHERE stream = 'results'"


def leased(run):
    """Jobs the engine holds now; 0 where the broker inside does not answer."""
    endpoint = f"ipc://{run.output}.millrace/clients.ipc"
    done = subprocess.run([program("millrace"), "status", "--json", "--timeout", "1", "--broker",
                           endpoint], text=True, capture_output=True, check=False)
    return json.loads(done.stdout)["counts"]["leased"] if done.returncode == 0 else 0


def output_lines(run):
    """Whole lines of the output by input line number."""
    if not run.output.exists():
        return {}
    whole = run.output.read_bytes()
    whole = whole[:whole.rfind(b"\n") + 1]
    return {int(json.loads(x)["id"].split("-")[0]): x for x in whole.splitlines()}


def committed(run):
    """Ids of jobs whose end is in the ledger, from a copy of its files."""
    with tempfile.TemporaryDirectory() as folder:
        for path in pathlib.Path(f"{run.output}.millrace").glob("ledger.sqlite*"):
            if not path.name.endswith("ballast"):
                shutil.copy(path, folder)
        ledger = pathlib.Path(folder, "ledger.sqlite")
        if not ledger.exists():
            return {}
        connection = sqlite3.connect(ledger)
        try:
            rows = connection.execute(ENDS_QUERY).fetchall()
        except sqlite3.OperationalError:
            return {}  # killed before the tables were there
        finally:
            connection.close()
    ends = {int(job.split("-")[0]): bytes(body) for job, body in rows}
    assert len(ends) == len(rows), "a job has two ends in the ledger"
    return ends


def engine_pid(process):
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        words = children.read_text().split()
    except OSError:
        return None
    return int(words[0]) if words else None


class Chaos:
    def __init__(self, run, seed, longest_s):
        self.run = run
        self.random = random.Random(seed)
        self.longest_s = longest_s
        self.kills = self.in_flight = 0
        self.lines, self.ends = {}, {}

    def check_kept(self):
        """What was in the output or the ledger before is there now, unchanged."""
        ends = committed(self.run)
        for number, body in self.ends.items():
            assert ends.get(number) == body, f"line {number} was done again"
        self.ends = ends

    def remember_output(self):
        lines = output_lines(self.run)
        self.lines.update(lines)
        return len(lines)

    def wait_for_rows(self, process, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None:
            held = leased(self.run)
            if held >= ROWS:
                return held
        return 0

    def kill_once(self, process, engine_too):
        rows = self.wait_for_rows(process, 20)
        left = LINES - len(self.ends)
        longest = self.longest_s if left > 60 else self.longest_s / 4
        time.sleep(self.random.uniform(0, longest))
        rows = min(rows, leased(self.run))
        victim = engine_pid(process) if engine_too else process.pid
        if process.poll() is not None or victim is None:
            return False
        os.kill(victim, signal.SIGKILL)
        self.kills += 1
        self.in_flight += 1 if rows >= ROWS else 0
        return True

    def go(self, kills, engine_every):
        process = self.run.start()
        while self.kills < kills:
            engine_too = self.kills % engine_every == engine_every - 1
            killed = self.kill_once(process, engine_too)
            assert killed, f"the run ended after {self.kills} kills: {process.communicate()}"
            if not engine_too:
                process.communicate()
                self.check_kept()
                self.remember_output()
                process = self.run.start()
        stdout, stderr = process.communicate(timeout=300)
        return process.returncode, stdout + stderr


def check(chaos, code, said):
    assert code == 0, said
    final = output_lines(chaos.run)
    assert sorted(final) == list(range(1, LINES + 1))
    assert sorted(chaos.run.results()) == list(range(1, LINES + 1))
    for number, line in chaos.lines.items():
        assert final[number] == line, f"line {number} was written anew"
    chaos.check_kept()
    assert chaos.kills >= KILLS
    assert chaos.in_flight >= IN_FLIGHT_KILLS, f"only {chaos.in_flight} kills hit {ROWS} rows"


def write_lines(run, seed):
    draw = random.Random(seed)
    run.write([json.dumps({"custom_id": f"c{i}", "url": "/v1/completions", "body": {
        "prompt": f"Story {i}: the ship", "max_tokens": draw.randint(16, 96), "ignore_eos": True,
        "logprobs": 1}}) for i in range(LINES)])


def test_kills_with_a_stub_engine(tmp_path):
    run = Run(tmp_path)
    run.env |= {"STUB_DELAY_MS": "400", "STUB_ROWS": "10"}
    write_lines(run, 1)
    chaos = Chaos(run, seed=1, longest_s=0.35)
    check(chaos, *chaos.go(KILLS, engine_every=10))
    ended = run.executions("end")
    # An end that was logged and not committed is done again; one that was committed never is.
    assert len(set(ended)) == LINES


@pytest.mark.long
def test_kills_with_the_model(tmp_path):
    run = Run(tmp_path)
    run.command = lambda *extra: [
        program("millrace"), "run", "--model", model_path(), "--input", str(run.input), "--output",
        str(run.output), "--max-batch", "16", *extra]
    write_lines(run, 2)
    chaos = Chaos(run, seed=2, longest_s=1.0)
    check(chaos, *chaos.go(KILLS, engine_every=10))


def test_a_line_that_kills_the_engine_with_the_model(tmp_path):
    run = Run(tmp_path)
    run.command = lambda *extra: [
        program("millrace"), "run", "--model", model_path(), "--input", str(run.input), "--output",
        str(run.output), "--json", *extra]
    run.env = {"MILLRACE_TEST_ABORT_ON": "poison"}
    run.write([json.dumps({"custom_id": f"c{i}", "url": "/v1/completions", "body": {
        "prompt": "poison" if i == 7 else f"Count to {i}:", "max_tokens": 8}})
        for i in range(1, 13)])
    done = run.go(expect=1)
    results = run.results()
    assert sorted(results) == list(range(1, 13))
    assert results[7]["error"]["code"] == "engine_died"
    assert all(results[i]["error"] is None for i in results if i != 7)
    deaths = [x for x in done.stdout.splitlines() if '"event":"engine_died"' in x]
    assert 1 <= len(deaths) <= 3
