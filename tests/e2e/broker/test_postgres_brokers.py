"""Several brokers on one database: clients and engines at each, brokers that are killed, and jobs
that one broker leased and another cancels. Each job ends once, and streams have no gaps."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import zmq
from keyed import MILLRACE
from patience import PATIENCE_S
from postgres import PostgresServer
from wire import Peer, end, job, read_all

LEASE_MS = 2000
PACKAGE = pathlib.Path(__file__).resolve().parents[3] / "client/python/src"


@pytest.fixture(scope="module")
def server():
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def brokers(server, broker_at):
    """Two brokers on a database that is theirs alone."""
    server.run("DROP SCHEMA IF EXISTS millrace CASCADE")
    return [broker_at(server.url, "--lease-ms", LEASE_MS) for _ in range(2)]


def as_client(context, broker):
    peer = Peer(context, broker.endpoint("clients"), role="client", name="c")
    peer.welcome = peer.join()
    return peer


class Engine(Peer):
    """An engine process, which may turn to another broker with the leases that it holds."""

    def __init__(self, context, broker, name):
        self.context, self.name, self.held, self.steps = context, name, set(), 0
        self.move(broker)

    def move(self, broker):
        super().__init__(self.context, broker.endpoint("engines"), role="engine", name=self.name,
                         instance=f"instance of {self.name}", model="m")
        self.join()
        self.beat()

    def beat(self, credit=0):
        self.steps += 1
        _, body = self.ask("heartbeat", leases=sorted(self.held), steps=self.steps, tokens=0,
                           credit=credit)
        self.held -= set(body.get("lost", []))
        return body

    def take(self, jobs):
        """Asks for jobs until there are some, and returns their leases."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            self.beat(jobs)
            message = self.receive(0.1)
            self.others += [message] if message else []
            leases = [x for m in self.others if m["kind"] == "leases" for x in m["body"]["leases"]]
            if leases:
                self.others = [m for m in self.others if m["kind"] != "leases"]
                self.held |= {x["lease"] for x in leases}
                return leases
        raise AssertionError("no job came")

    def finish(self, leases):
        _, body = self.ask("ends", ends=[end(x) for x in leases])
        self.held -= set(leases)
        return body


class Bell:
    """The announcements of a broker's doorbell."""

    def __init__(self, context, client):
        self.socket = context.socket(zmq.SUB)
        self.socket.linger = 0
        self.socket.subscribe(b"results")
        self.socket.connect(client.welcome["doorbell"])

    def wait(self, high):
        until = time.monotonic() + PATIENCE_S
        while self.socket.poll(max(0, until - time.monotonic()) * 1000):
            if int(self.socket.recv_multipart()[2]) >= high:
                return
        raise AssertionError("the doorbell did not ring")


def submit(client, names, **fields):
    _, body = client.ask("submit", jobs=[job(x, **fields) for x in names])
    assert not any(a.get("error") for a in body["answers"]), body


def state_of(client, name):
    return client.ask("status_request", job=name)[1]


def wait_until(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def every_job_ended_once(client, names):
    entries = read_all(client)
    assert [e["number"] for e in entries] == list(range(1, len(names) + 1))
    assert sorted(e["body"]["job"] for e in entries) == sorted(names)


def test_jobs_of_one_broker_run_and_end_at_the_other(brokers, context):
    a, b = brokers
    at_a, at_b = as_client(context, a), as_client(context, b)
    bell = Bell(context, at_b)
    engine = Engine(context, b, "e")
    submit(at_a, ["j0", "j1", "j2"])
    while len(engine.held) < 2:
        engine.take(2 - len(engine.held))
    other = Engine(context, a, "f")
    other.take(1)
    other.finish(other.held.copy())
    bell.wait(1)  # A wrote it
    engine.finish(engine.held.copy())
    every_job_ended_once(at_b, ["j0", "j1", "j2"])
    every_job_ended_once(at_a, ["j0", "j1", "j2"])


def test_an_engine_moves_on_with_its_jobs_when_its_broker_is_killed(brokers, context):
    a, b = brokers
    client = as_client(context, b)
    engine = Engine(context, a, "e")
    names = [f"j{i}" for i in range(4)]
    submit(client, names)
    while len(engine.held) < 4:
        engine.take(4 - len(engine.held))
    a.kill()
    engine.move(b)
    assert len(engine.held) == 4
    # They are no broker's that died: nobody takes them back.
    until = time.monotonic() + 3 * LEASE_MS / 1000
    while time.monotonic() < until:
        engine.beat()
        time.sleep(0.2)
    assert len(engine.held) == 4
    body = engine.finish(engine.held.copy())
    assert len(body["committed"]) == 4 and not body.get("stale")
    every_job_ended_once(client, names)


def test_jobs_of_a_dead_broker_and_its_dead_engine_run_elsewhere(brokers, context):
    a, b = brokers
    client = as_client(context, b)
    gone = Engine(context, a, "gone")
    submit(client, ["j0", "j1"])
    while len(gone.held) < 2:
        gone.take(2 - len(gone.held))
    a.kill()
    engine = Engine(context, b, "e")
    done = 0
    while done < 2:
        leases = engine.take(2)
        done += len(engine.finish([x["lease"] for x in leases])["committed"])
    every_job_ended_once(client, ["j0", "j1"])
    # The one that was thought dead brings its results as well: they are of no use any more.
    gone.move(b)
    assert not gone.held


def test_a_broker_that_stands_still_keeps_leases_that_lapse(brokers, context):
    """Nobody takes a lease of it back while its heartbeat counts, which is two lease times; a job
    may go on at another broker meanwhile."""
    a, b = brokers
    client = as_client(context, b)
    engine = Engine(context, a, "e")
    submit(client, ["j0"])
    engine.take(1)
    engine.beat()
    a.process.send_signal(signal.SIGSTOP)
    time.sleep(1.6 * LEASE_MS / 1000)  # the other broker looks for lapsed leases each second
    state = state_of(client, "j0")
    engine.move(b)
    committed = engine.finish(engine.held.copy())["committed"]
    a.process.send_signal(signal.SIGCONT)
    assert (state["state"], state["attempts"], len(committed)) == ("leased", 1, 1)
    every_job_ended_once(client, ["j0"])


def test_a_cancel_at_one_broker_reaches_a_job_that_runs_at_the_other(brokers, context):
    a, b = brokers
    client = as_client(context, b)
    engine = Engine(context, a, "e")
    submit(client, ["j0"])
    (lease,) = engine.take(1)
    _, body = client.ask("cancel", jobs=["j0"])
    assert body["requested"] == 1
    # The engine is told without having sent a heartbeat.
    while lease["lease"] not in engine.wait("heartbeat_answer").get("cancelled", []):
        pass
    ended = {"lease": lease["lease"], "state": "cancelled",
             "error": {"code": "cancelled", "message": "cancelled while running"}}
    engine.ask("ends", ends=[ended])
    assert state_of(client, "j0")["state"] == "cancelled"


def test_a_pause_at_one_broker_holds_at_the_other(brokers, context):
    a, b = brokers
    at_a, at_b = as_client(context, a), as_client(context, b)
    engine = Engine(context, a, "e")
    at_b.ask("change_pause", all=True, paused=True)
    engine.beat(credit=1)
    submit(at_a, ["j0"])
    # What an engine says is carried out after the claim that the job has set off for it.
    assert engine.finish([10**9])["stale"] == [10**9]
    assert state_of(at_b, "j0")["state"] == "queued"
    at_b.ask("change_pause", all=True, paused=False)
    assert len(engine.take(1)) == 1


def test_a_model_that_serves_at_one_broker_is_known_at_the_other(brokers, context):
    a, b = brokers
    client = as_client(context, b)
    _, body = client.ask("submit", jobs=[job("j0", model="m")])
    assert body["answers"][0]["error"]["code"] == "unknown_model"
    engine = Engine(context, a, "e")

    def known():
        _, body = client.ask("submit", jobs=[job("j0", model="m")])
        return not body["answers"][0].get("error")

    wait_until(known)
    engine.take(1)
    engine.finish(engine.held.copy())
    every_job_ended_once(client, ["j0"])


def test_brokers_are_killed_again_and_again(brokers, context):
    names, done = [], set()
    engine = Engine(context, brokers[0], "e")
    for turn in range(6):
        victim, other = brokers[turn % 2], brokers[(turn + 1) % 2]
        client = as_client(context, victim)
        fresh = [f"j{turn}-{i}" for i in range(10)]
        submit(client, fresh)
        names += fresh
        leases = engine.take(4)
        engine.say("ends", ends=[end(x["lease"]) for x in leases[:2]])  # whether committed or not
        victim.kill()
        engine.move(other)
        body = engine.finish(sorted(engine.held))
        done |= set(body.get("committed", []))
        victim.start()
    client = as_client(context, brokers[0])
    while client.ask("status_request")[1]["counts"]["completed"] < len(names):
        leases = engine.take(20)
        engine.finish([x["lease"] for x in leases])
    every_job_ended_once(client, names)
    assert all(broker.terminate() == 0 for broker in brokers)


def at_both(brokers, socket):
    return ",".join(broker.endpoint(socket) for broker in brokers)


@pytest.fixture
def engine_at_both(brokers):
    engine = subprocess.Popen([MILLRACE.parent / "stub_engine", "--broker",
                               at_both(brokers, "engines"), "--name", "e", "--rows", "4",
                               "--step-ms", "50", "--job-steps", "5"])
    yield
    engine.kill()
    engine.wait()


@pytest.mark.usefixtures("engine_at_both")
def test_programs_turn_to_the_next_endpoint_when_their_broker_is_gone(brokers, context, tmp_path):
    """The first broker is killed while jobs run that its client waits for."""
    a, b = brokers
    jobs, results = tmp_path / "jobs.jsonl", tmp_path / "results.jsonl"
    jobs.write_text("".join(json.dumps({"custom_id": f"j{i}", "prompt": "p"}) + "\n"
                            for i in range(60)))
    client = subprocess.Popen([MILLRACE, "submit", jobs, "--any-model", "--wait", "--timeout", "60",
                               "--output", results, "--broker", at_both(brokers, "clients")])
    try:
        wait_until(lambda: results.exists() and results.read_text().count("\n") > 8)
        a.kill()
        assert client.wait(PATIENCE_S) == 0
    finally:
        client.kill()
        client.wait()
    lines = [json.loads(x) for x in results.read_text().splitlines()]
    assert sorted(x["custom_id"] for x in lines) == sorted(f"j{i}" for i in range(60))
    assert all(x["response"]["status_code"] == 200 for x in lines)
    assert [e["number"] for e in read_all(as_client(context, b))] == list(range(1, 61))


WITH_THE_PACKAGE = """
import sys
import millrace
with millrace.Client(sys.argv[1]) as client:
    for result in client.map([f"prompt {i}" for i in range(60)]):
        print(result.state, flush=True)
"""


@pytest.mark.usefixtures("engine_at_both")
def test_the_python_package_turns_to_the_next_endpoint(brokers):
    client = subprocess.Popen(
        [sys.executable, "-c", WITH_THE_PACKAGE, at_both(brokers, "clients")], text=True,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    states = []
    try:
        for line in client.stdout:
            states.append(line.strip())
            if len(states) == 9:
                brokers[0].kill()
        assert client.wait(PATIENCE_S) == 0
    finally:
        client.kill()
        client.wait()
    assert states == ["completed"] * 60
