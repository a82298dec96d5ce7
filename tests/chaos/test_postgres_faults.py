"""Three brokers on one PostgreSQL, engines and clients, all real processes. Brokers, engines and
the database are killed and stopped, and the links between them cut, also in the middle of a commit.
No acknowledged job may be lost, end twice or fail, and the numbers of the stream have no gaps.

`ops/test --long` has 1,000 faults.
"""
import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import time

import pytest
from patience import PATIENCE_S

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e/client"), str(HERE.parent / "e2e/broker")]
from postgres_checks import ask, end_and_check  # noqa: E402
from postgres_fleet import PostgresFleet  # noqa: E402

LONGEST_S = 1.0  # between two faults
RESULTS = 10     # at least, for each fault
AWAY_S = 2.5     # of a server, at most: also longer than a broker's heartbeat counts


class Faults:
    """Each kind of fault is a method, and comes about as often as the others."""

    KINDS = ("kill_broker", "kill_engine", "kill_client", "kill_server", "stop_server",
             "kill_backend", "end_connections", "cut", "cut_before_commit", "cut_after_commit",
             "swallow", "hold_broker")

    def __init__(self, fleet, seed):
        self.fleet, self.random = fleet, random.Random(seed)
        self.counts = collections.Counter()
        self.held = []  # processes that are stopped, and until when

    def go(self, faults):
        kinds = [self.KINDS[i % len(self.KINDS)] for i in range(faults)]
        self.random.shuffle(kinds)
        for number, kind in enumerate(kinds):
            self.pass_time(self.random.uniform(0, LONGEST_S))
            self.wait_for_results(number * RESULTS)
            getattr(self, kind)()
            self.counts[kind] += 1
        self.let_go_on(everything=True)
        for proxy in self.fleet.proxies:
            proxy.heal()

    def pass_time(self, seconds):
        until = time.monotonic() + seconds
        while True:
            self.let_go_on()
            self.fleet.go_on()
            if time.monotonic() >= until:
                return
            time.sleep(0.02)

    def wait_for_results(self, number):
        """A slow machine gets as much done between two faults as a fast one."""
        until = time.monotonic() + PATIENCE_S
        while len(self.fleet.consumer.jobs) < number:
            assert time.monotonic() < until, self.fleet.tail_of_logs()
            self.pass_time(0.02)

    def one_that_runs(self, processes):
        """One of the processes; those that have just ended are started again first."""
        while True:
            running = [x for x in processes() if x is not None and x.poll() is None]
            if running:
                return self.random.choice(running)
            self.pass_time(0.02)

    def kill(self, processes):
        victim = self.one_that_runs(processes)
        victim.kill()
        victim.wait()

    def kill_broker(self):
        self.kill(lambda: [x.process for x in self.fleet.brokers])

    def kill_engine(self):
        self.kill(lambda: self.fleet.engines)

    def kill_client(self):
        self.kill(lambda: [self.fleet.files.process])

    def restart_server(self):
        self.pass_time(self.random.choice([0, 0.5, AWAY_S]))
        self.fleet.server.start()

    def kill_server(self):
        self.fleet.server.kill()
        self.restart_server()

    def stop_server(self):
        self.fleet.server.stop()  # as `pg_ctl stop -m immediate` does
        self.restart_server()

    def kill_backend(self):
        """One process of the server dies: the server ends all others, and recovers."""
        ask(self.fleet, "SELECT 1")  # it has recovered from the last one
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.random.choice(self.fleet.server.children()), signal.SIGKILL)

    def end_connections(self):
        ask(self.fleet, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
            "pid <> pg_backend_pid() AND backend_type = 'client backend'")

    def proxy(self):
        return self.random.choice(self.fleet.proxies)

    def cut(self):
        self.proxy().cut()

    def swallow(self):
        self.proxy().swallow(self.random.uniform(0.2, 3))

    def cut_before_commit(self):
        self.cut_commit("request")

    def cut_after_commit(self):
        self.cut_commit("answer")

    def cut_commit(self, where):
        proxy, until = self.proxy(), time.monotonic() + PATIENCE_S
        proxy.cut_commit(where)
        while not proxy.was_cut.is_set():
            assert time.monotonic() < until, "no commit came"
            self.pass_time(0.01)

    def hold_broker(self):
        """One that stands still may lose its leases to the others, and goes on with them."""
        broker = self.one_that_runs(lambda: [x.process for x in self.fleet.brokers])
        broker.send_signal(signal.SIGSTOP)
        self.held.append((time.monotonic() + self.random.uniform(0.1, 3), broker))

    def let_go_on(self, everything=False):
        now = time.monotonic()
        for due, process in self.held:
            if (everything or due <= now) and process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self.held = [x for x in self.held if not everything and x[0] > now]


@pytest.mark.parametrize("faults,seed", [
    (30, 1), pytest.param(1000, 2, marks=pytest.mark.long)])
def test_nothing_is_lost_or_doubled(tmp_path, faults, seed):
    print(f"seed {seed}")
    with contextlib.closing(PostgresFleet(tmp_path)) as fleet:
        chaos = Faults(fleet, seed)
        chaos.go(faults)
        jobs = end_and_check(fleet)
        print(f"{jobs} jobs, {dict(chaos.counts)}, {sum(x.cuts for x in fleet.proxies)} "
              f"connections cut, clients turned to another broker "
              f"{sum(x.moves for x in fleet.clients)} times")
    assert sum(chaos.counts.values()) == faults and jobs > RESULTS * (faults - 1)
