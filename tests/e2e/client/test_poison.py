"""Jobs that kill their engine: a real broker and real engine processes without a model, which a
watcher starts again as a service manager does."""
import json
import math
import os
import signal
import sqlite3
import subprocess
import threading
import time

import pytest
from programs import Broker, program, wait_until

ROWS = 64
HELD = 96  # an engine holds its rows and half as many that wait
STEP_MS, STEPS = 20, 25


class Engines:
    """Engine processes that are started again when they die."""

    def __init__(self, endpoint, count, log, poison="", rows=ROWS, held=HELD, step_ms=STEP_MS):
        self.command = [
            program("stub_engine"), "--broker", endpoint, "--model-name", "stub", "--rows",
            str(rows), "--capacity", str(held), "--step-ms", str(step_ms), "--job-steps",
            str(STEPS)]
        self.env = {**os.environ, "MILLRACE_TEST_ABORT_ON": poison}
        self.log = open(log, "ab")
        self.deaths, self.processes, self.ending = 0, [], False
        for _ in range(count):
            self.processes.append(self.start())
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def start(self):
        return subprocess.Popen(self.command, env=self.env, stderr=self.log)

    def watch(self):
        while not self.ending:
            for i, process in enumerate(self.processes):
                if process.poll() is not None and not self.ending:
                    self.deaths += 1
                    self.processes[i] = self.start()
            time.sleep(0.01)

    def stop(self):
        self.ending = True
        self.watcher.join()
        for process in self.processes:
            process.kill()
            process.wait()
        self.log.close()


def lines(count, killers):
    return "".join(json.dumps({
        "custom_id": f"c{i}", "url": "/v1/completions",
        "body": {"prompt": "poison" if i in killers else f"p{i}"}}) + "\n" for i in range(count))


@pytest.fixture
def quick_broker(tmp_path_factory):
    """A broker that notices deaths soon."""
    one = Broker(tmp_path_factory.mktemp("b"))
    one.start(lease_ms=1000)
    yield one
    one.stop()


@pytest.fixture
def engines(request, tmp_path):
    name = "quick_broker" if "quick_broker" in request.fixturenames else "broker"
    broker = request.getfixturevalue(name)
    started = []

    def start(count, poison="", **settings):
        started.append(Engines(broker.engines, count, tmp_path / "engines.log", poison, **settings))
        wait_until(lambda: len(json.loads(broker.millrace("status", "--json").stdout)["engines"])
                   >= count, "the engines' hello")
        return started[-1]

    yield start
    for one in started:
        one.stop()


def run(broker, tmp_path, name, count, killers):
    """Submits the jobs, waits for their results; returns the seconds and the results."""
    jobs, out = tmp_path / f"{name}.jsonl", tmp_path / f"{name}-results.jsonl"
    jobs.write_text(lines(count, killers))
    began = time.monotonic()
    broker.millrace("submit", str(jobs), "--batch", name, "--wait", "--output", str(out),
                    expect=1 if killers else 0)
    seconds = time.monotonic() - began
    results = [json.loads(x) for x in out.read_text().splitlines()]
    return seconds, {int(x["custom_id"][1:]): x for x in results}


def most_deaths(killers, held):
    """As broker/ledger/suspect_rules.cpp says. A killer's engine dies with it among all that
    it held and had not called waiting, then among half of these and so on, and twice with it alone.
    Two things depend on time, so a loaded machine shows them. A job that its last heartbeat called
    waiting is excused for its first two hand-outs, and an engine that dies in the step in which the
    job begins may not have told that it began. And where the deaths of one killer take so long that
    the next comes beside its suspects, both are of one incident: the one that is found closes it,
    and the other begins anew."""
    excused, halving = 2, 2 + int(math.log2(held))
    return sum(excused + (others + 1) * halving for others in range(killers))


def check(results, count, killers):
    assert sorted(results) == list(range(count))
    for i, result in results.items():
        if i in killers:
            assert result["error"]["code"] == "engine_died"
        else:
            assert result["error"] is None, result


@pytest.mark.parametrize("killer", [0, 63, 130])
def test_one_killer_among_200_is_found_in_few_deaths(broker, engines, tmp_path, killer):
    watched = engines(1, "poison")
    _, results = run(broker, tmp_path, "one", 200, {killer})
    check(results, 200, {killer})
    print(f"{watched.deaths} deaths")
    assert 3 <= watched.deaths <= most_deaths(1, HELD)


@pytest.mark.long
def test_three_killers_among_2000_cost_a_tenth_of_the_time(quick_broker, engines, tmp_path):
    """A chain of deaths takes time, because each is noticed when its leases lapse, but the engines
    go on with other jobs meanwhile."""
    killers = {300, 900, 1500}
    watched = engines(4, "poison", rows=16, held=24, step_ms=60)
    plain, results = run(quick_broker, tmp_path, "plain", 2000, set())
    check(results, 2000, set())
    assert watched.deaths == 0
    poisoned, results = run(quick_broker, tmp_path, "poisoned", 2000, killers)
    check(results, 2000, killers)
    print(f"{plain:.1f} s without killers, {poisoned:.1f} s with them, {watched.deaths} deaths")
    assert watched.deaths <= most_deaths(3, 24)
    assert poisoned <= 1.1 * plain


def test_a_stopped_engine_is_not_the_fault_of_jobs_that_waited_in_it(broker, engines, tmp_path):
    """After the stop, all jobs run again; none of those that waited runs as a suspect."""
    watched = engines(1, rows=4, held=12, step_ms=400)
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(lines(12, set()))
    broker.millrace("submit", str(jobs), "--batch", "stop", expect=0)
    wait_until(lambda: json.loads(broker.millrace("status", "--json").stdout)
               ["engines"][0]["leases"] == 12, "the leases")
    time.sleep(1.2)  # a heartbeat
    stopped = watched.processes[0]
    stopped.send_signal(signal.SIGSTOP)
    wait_until(lambda: json.loads(broker.millrace("status", "--json").stdout)
               ["counts"]["queued"] == 12, "the end of its leases")
    broker.kill()
    suspects = ledger_suspects(broker)
    stopped.send_signal(signal.SIGCONT)
    assert len(suspects) == 4, suspects


def ledger_suspects(broker):
    with sqlite3.connect(broker.folder / "ledger" / "ledger.sqlite") as ledger:
        return ledger.execute("SELECT job FROM jobs WHERE suspect_us IS NOT NULL").fetchall()
