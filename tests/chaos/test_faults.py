"""A broker, engines and clients, all real processes, meet SIGKILL, SIGSTOP, links that are cut,
delayed or dead, and a disk that fills up. No job may be lost, come twice, or fail.

The engines are stubs that answer at once, so that many jobs are under way whatever the machine. The
clients submit one file after the other and wait for its results; a client that gives up or is
killed is started again with the same command, as its user would. `ops/test --long` sends 1,000
kills.
"""
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

import pytest
from patience import PATIENCE_S

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e" / "client")]
from cutting_proxy import CuttingProxy  # noqa: E402
from file_client import LINES, TEXT, FileClient  # noqa: E402
from programs import BIN, program, wait_until  # noqa: E402

ENGINES = 3
CLIENTS = 2
MIB = 1024 * 1024
SMALL_DISK = BIN.parent / "tests" / "libsmall_disk.so"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [x.getsockname()[1] for x in sockets]
    for one in sockets:
        one.close()
    return ports


class Fleet:
    """A broker on a small disk, and engines and clients that reach it through proxies."""

    def __init__(self, folder):
        self.folder = folder
        client_port, engine_port, bell_port = free_ports(3)
        self.ports = {"--listen": client_port, "--listen-engines": engine_port,
                      "--listen-doorbell": bell_port}
        self.proxies = [CuttingProxy(client_port), CuttingProxy(engine_port)]
        self.size = folder / "disk-size"
        self.resize(1024 * MIB)
        self.broker = None
        self.engines = [None] * ENGINES
        self.started = 0
        self.clients = [FileClient(f"c{i}", folder, self.at(0)) for i in range(CLIENTS)]

    def at(self, proxy):
        return f"tcp://127.0.0.1:{self.proxies[proxy].port}"

    def resize(self, size):
        draft = self.size.with_suffix(".new")
        draft.write_text(f"{size}\n")
        draft.replace(self.size)

    def fill_disk(self):
        ledger = self.folder / "ledger"
        self.resize(sum(x.stat().st_size for x in ledger.iterdir()))

    def start_broker(self):
        words = [f"{option}=tcp://127.0.0.1:{port}" for option, port in self.ports.items()]
        with open(self.folder / "broker.log", "ab") as log:
            self.broker = subprocess.Popen(
                [program("millrace-broker"), "--ledger", self.folder / "ledger", "--lease-ms",
                 "1000", *words], stdout=subprocess.DEVNULL, stderr=log,
                env={**os.environ, "LD_PRELOAD": str(SMALL_DISK),
                     "SMALL_DISK_FOLDER": str(self.folder / "ledger"),
                     "SMALL_DISK_BYTES": str(self.size),
                     "ASAN_OPTIONS": "verify_asan_link_order=0"})

    def start_engine(self, i):
        self.started += 1
        with open(self.folder / "engines.log", "ab") as log:
            self.engines[i] = subprocess.Popen(
                [program("stub_engine"), "--broker", self.at(1), "--name", f"e{self.started}",
                 "--text", TEXT, "--capacity", "12", "--rows", "8", "--step-ms", "5",
                 "--job-steps", "3"], stdout=subprocess.DEVNULL, stderr=log)

    def start(self):
        self.start_broker()
        for i in range(ENGINES):
            self.start_engine(i)

    def go_on(self, more=True):
        """Starts again what has ended. Returns whether a client is still at work."""
        if self.broker.poll() is not None:
            self.start_broker()  # a full disk or a kill ended it
        for i, engine in enumerate(self.engines):
            if engine.poll() is not None:
                self.start_engine(i)
        return any([client.go_on(more) for client in self.clients])

    def heal(self):
        self.resize(1024 * MIB)
        for proxy in self.proxies:
            proxy.heal()

    def processes(self):
        return [self.broker, *self.engines, *(x.process for x in self.clients)]

    def stop(self):
        for process in self.processes():
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for proxy in self.proxies:
            proxy.close()


class Faults:
    def __init__(self, fleet, seed):
        self.fleet, self.random = fleet, random.Random(seed)
        self.counts = collections.Counter()
        self.stopped = []

    def kill(self):
        victim = self.random.choice(["broker", "broker", "engine", "engine", "client"])
        fleet = self.fleet
        if victim == "client":
            process = self.random.choice(fleet.clients).process
        else:
            process = fleet.broker if victim == "broker" else self.random.choice(fleet.engines)
        if process is None or process.poll() is not None:
            return
        process.kill()
        process.wait()
        self.counts["kill " + victim] += 1

    def other(self):
        """A fault that kills nothing."""
        kind = self.random.choice(["stop", "stop", "cut", "swallow", "delay", "disk", "heal"])
        proxy = self.random.choice(self.fleet.proxies)
        self.counts[kind] += 1
        if kind == "stop":
            process = self.random.choice(
                [x for x in self.fleet.processes() if x is not None and x.poll() is None])
            process.send_signal(signal.SIGSTOP)
            self.stopped.append((time.monotonic() + self.random.uniform(0.1, 2.5), process))
        elif kind == "cut":
            proxy.cut()
        elif kind == "swallow":
            proxy.swallow(self.random.uniform(0.2, 3))
        elif kind == "delay":
            proxy.delay(self.random.uniform(0.01, 0.2))
        elif kind == "disk":
            self.fleet.fill_disk()
        else:
            self.fleet.heal()

    def let_go_on(self, everything=False):
        now = time.monotonic()
        for due, process in self.stopped:
            if everything or due <= now:
                process.send_signal(signal.SIGCONT)
        self.stopped = [x for x in self.stopped if not everything and x[0] > now]

    def kills(self):
        return sum(n for kind, n in self.counts.items() if kind.startswith("kill"))

    def go(self, kills):
        while self.kills() < kills:
            self.let_go_on()
            self.fleet.go_on()
            if self.random.random() < 0.5:
                self.other()
            else:
                self.kill()
            time.sleep(self.random.uniform(0, 0.4))
        self.let_go_on(everything=True)
        self.fleet.heal()


def check_stream(fleet):
    """The stream of the broker has each result once, too."""
    told = subprocess.run([program("millrace"), "results", "results", "--broker", fleet.at(0)],
                          text=True, capture_output=True, check=True).stdout.splitlines()
    return collections.Counter(json.loads(x)["custom_id"] for x in told)


@pytest.mark.parametrize("kills,seed", [
    (30, 1), pytest.param(1000, 2, marks=pytest.mark.long)])
def test_nothing_is_lost_doubled_or_unexpected(tmp_path, kills, seed):
    assert SMALL_DISK.exists(), f"{SMALL_DISK} is missing: build the target small_disk"
    fleet = Fleet(tmp_path)
    faults = Faults(fleet, seed)
    with contextlib.ExitStack() as stack:
        stack.callback(fleet.stop)
        fleet.start()
        faults.go(kills)
        wait_until(lambda: not fleet.go_on(more=False), "the end of all files", PATIENCE_S)
        stream = check_stream(fleet)
    expected = {f"{x.name}-{file}-{i}" for x in fleet.clients
                for file in range(1, x.files + 1) for i in range(LINES)}
    seen = sum((x.seen for x in fleet.clients), collections.Counter())
    lost = expected - seen.keys()
    doubled = [x for x in (*seen.elements(), *stream.elements()) if max(seen[x], stream[x]) > 1]
    unexpected = [line for x in fleet.clients for line in x.wrong]
    unexpected += [x for x in (seen | stream) if x not in expected]
    print(f"{len(expected)} jobs, {dict(faults.counts)}, {sum(x.cuts for x in fleet.proxies)} "
          f"connections cut, clients gave up {sum(x.restarts for x in fleet.clients)} times")
    assert (len(lost), len(doubled), len(unexpected)) == (0, 0, 0), (
        sorted(lost)[:5], doubled[:5], unexpected[:5])
    assert stream.keys() == expected
    assert faults.kills() == kills and len(expected) >= 10 * kills
