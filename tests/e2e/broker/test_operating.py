"""Operating a broker: backups while it works, what verify finds, restoring, draining, restarts, and
the log of what administrators did."""
import json
import sqlite3
import subprocess
import threading
import time

import pytest
import zmq

from keyed import MILLRACE, Key, KeyedBroker, Keys
from patience import PATIENCE_S
from wire import Broker, Peer, end, job, read_all


def millrace(*words, code=0):
    done = subprocess.run([MILLRACE, *map(str, words)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


class Worker:
    """An engine that runs whatever it gets, and a client that submits, until they are stopped."""

    def __init__(self, context, broker):
        self.context, self.broker = context, broker
        self.stopping = threading.Event()
        self.acknowledged, self.committed = set(), set()
        self.threads = [threading.Thread(target=x) for x in (self.produce, self.run)]
        for thread in self.threads:
            thread.start()

    def await_committed(self, count):
        until = time.monotonic() + PATIENCE_S
        while len(self.committed) < count:
            assert time.monotonic() < until, len(self.committed)
            time.sleep(0.02)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def session(self, endpoint, **hello):
        """Says hello until a broker answers."""
        while True:
            peer = Peer(self.context, self.broker.endpoint(endpoint), **hello)
            peer.say("hello", **hello)
            message = peer.receive(1)
            if self.stopping.is_set() or (message and message["kind"] == "welcome"):
                return peer
            peer.socket.close()

    def produce(self):
        number = 0
        while not self.stopping.is_set():
            peer = self.session("clients", role="client", name="producer")
            while not self.stopping.is_set():
                peer.say("submit", jobs=[job(f"j{number + i}") for i in range(10)])
                message = peer.receive(1)
                if message is None or message["kind"] != "submitted":
                    break  # the broker drains or is gone: say hello again
                self.acknowledged.update(a["job"] for a in message["body"]["answers"]
                                         if not a.get("error"))
                number += 10
            peer.socket.close()

    def run(self):
        ends = {}
        while not self.stopping.is_set():
            peer = self.session("engines", role="engine", name="e", instance="one", model="m")
            peer.say("ends", ends=list(ends.values()))
            while not self.stopping.is_set():
                asked = peer.say("heartbeat", leases=list(ends), steps=time.monotonic_ns(),
                                 credit=max(0, 20 - len(ends)))
                if not self.read_until(peer, asked, ends):
                    break
                time.sleep(0.01)
            peer.socket.close()

    def read_until(self, peer, asked, ends):
        """Takes all messages up to the answer. False: the broker has gone."""
        while True:
            message = peer.receive(1)
            if message is None or message["kind"] in ("goodbye", "refused"):
                return False
            if message["kind"] == "leases":
                fresh = [end(x["lease"]) for x in message["body"]["leases"]]
                ends.update({x["lease"]: x for x in fresh})
                peer.say("ends", ends=fresh)
            if message["kind"] == "committed":
                done = message["body"].get("committed", [])
                self.committed.update(done)
                for lease in [*done, *message["body"].get("stale", [])]:
                    ends.pop(lease, None)
            if message["id"] == asked:
                return True


@pytest.fixture
def start_worker(broker, context):
    started = []

    def start():
        started.append(Worker(context, broker))
        return started[0]

    yield start
    for worker in started:
        worker.stop()


class InMemory(Broker):
    def command(self, *extra):
        return [x.replace(str(self.folder / "ledger"), "memory:") for x in super().command(*extra)]


def client_of(context, broker):
    peer = Peer(context, broker.endpoint("clients"), role="client", name="c")
    peer.join()
    return peer


def total(counts):
    return sum(counts.values())


def test_a_backup_under_load_can_be_restored(broker, tmp_path, context, start_worker):
    client = client_of(context, broker)
    client.ask("submit", jobs=[job(f"big{i}", prompt="x" * 100_000) for i in range(100)])
    worker = start_worker()
    worker.await_committed(200)
    before, finished = set(worker.acknowledged), len(worker.committed)
    # Lines before the last one tell how the connection goes.
    told = json.loads(millrace("backup", "monday", "--json", "--broker",
                               broker.endpoint("clients")).splitlines()[-1])
    worker.await_committed(finished + 100)  # the broker goes on
    worker.stop()
    epoch = client.ask("fetch")[1]["epoch"]
    lease = max(worker.committed)
    broker.terminate()
    folder = tmp_path / "ledger" / "backups" / "monday"
    assert told["folder"] == str(folder) and told["jobs"] >= len(before) + 100
    assert told["results"] >= finished
    assert [x.name for x in folder.iterdir()] == ["ledger.sqlite"]
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert oct((folder / "ledger.sqlite").stat().st_mode & 0o777) == "0o600"
    assert not list(folder.parent.glob(".*"))

    (tmp_path / "ledger").rename(tmp_path / "old")
    millrace("restore", tmp_path / "old" / "backups" / "monday", tmp_path / "ledger")
    broker.start()
    client = client_of(context, broker)
    assert client.ask("fetch")[1]["epoch"] != epoch
    entries = read_all(client)
    assert len(entries) + 1 == told["results"]  # the broker keeps the model's name as one
    _, status = client.ask("status_request")
    assert total(status["counts"]) == told["jobs"]
    for name in before:
        assert client.ask("status_request", job=name)[0] == "status_answer", name
    engine = Peer(context, broker.endpoint("engines"), role="engine", instance="two", model="m")
    engine.join()
    engine.say("ready", credit=1)
    assert engine.wait("leases")["leases"][0]["lease"] > lease + 1_000_000


def test_names_of_backups(broker, context):
    at = ("--broker", broker.endpoint("clients"))
    millrace("backup", "a", *at)
    # The copy stays the old one, so a second backup of this name is refused.
    assert "there is a backup named a already" in millrace("backup", "a", *at, code=3)
    broker.terminate()
    broker.start()
    assert "there is a backup named a already" in millrace("backup", "a", *at, code=3)
    for bad in ("../up", ".hidden", "a/b", "", " "):
        client = client_of(context, broker)
        kind, refused = client.ask("backup_request", name=bad)
        assert kind == "refused" and refused["error"]["code"] in ("usage", "invalid_value"), bad


def test_a_ledger_in_memory_makes_no_backup(tmp_path, context):
    broker = InMemory(tmp_path)
    told = millrace("backup", "--broker", broker.endpoint("clients"), code=2)
    assert "not in a file" in told and "--ledger DIR" in told
    broker.close()


@pytest.fixture
def backup(broker, tmp_path, context):
    client = client_of(context, broker)
    client.ask("submit", jobs=[job(f"j{i}", prompt="x" * 3000, batch="few" if i > 47 else "")
                               for i in range(50)])
    engine = Peer(context, broker.endpoint("engines"), role="engine", instance="i", model="m")
    engine.join()
    engine.say("ready", credit=20)
    leases = []
    while len(leases) < 20:
        leases += engine.wait("leases")["leases"]
    engine.ask("ends", ends=[end(x["lease"]) for x in leases[:15]])
    millrace("backup", "b", "--broker", broker.endpoint("clients"))
    return tmp_path / "ledger" / "backups" / "b"


# tests/unit/ledger/verify_test.cpp has a case for each rule between the tables.
DAMAGE = {
    "a result": ("UPDATE entries SET body = x'00' WHERE number = 3", "result 3 of stream results"),
    "a body": ("UPDATE job_bodies SET body = x'00' WHERE sequence = 40", "the job at place 40"),
    "a missing result": ("DELETE FROM entries WHERE number = 4",
                         "a stream has gaps: stream results of tenant default"),
    "a result too many": ("UPDATE streams SET high = 14 WHERE stream = 'results'",
                          "results belong to no stream, or lie outside of it"),
    "no counts": ("DELETE FROM job_counts", "the counts of jobs"),
    "wrong counts": ("UPDATE job_counts SET jobs = 5 WHERE state = 0", "the counts of jobs"),
    "wrong counts of a batch": ("UPDATE job_counts SET jobs = 9 WHERE batch <> ''",
                                "the counts of jobs do not match the jobs: batch few of tenant"),
    "no counts of ready jobs": ("DELETE FROM ready_counts", "the counts of ready jobs"),
    "wrong counts of ready jobs": ("UPDATE ready_counts SET jobs = 5", "the counts of ready jobs"),
    "no batches": ("DELETE FROM batches", "a job belongs to a batch that does not exist"),
    "no place in the queue": ("DELETE FROM queue WHERE sequence = 30", "is not in the queue"),
    "a place without a job": ("UPDATE queue SET job = 'nobody' WHERE sequence = 30",
                              "a place in the queue is not that of a queued job: job nobody"),
    "a lost lease": ("DELETE FROM leases", "a leased job and its lease"),
    "a lease without a job": ("UPDATE leases SET job = 'nobody' WHERE lease = 20",
                              "a lease is not that of a leased job: lease 20 of job nobody"),
}


@pytest.mark.parametrize("change, says", DAMAGE.values(), ids=DAMAGE)
def test_verify_finds_damage(backup, tmp_path, change, says):
    assert "50 jobs, 16 results" in millrace("verify", backup)
    with sqlite3.connect(backup / "ledger.sqlite") as base:
        base.execute(change)
    base.close()
    told = millrace("verify", backup, code=3)
    assert "ledger_corrupt" in told and says in told and "restore" in told
    assert says in millrace("restore", backup, tmp_path / "new", code=3)
    assert not (tmp_path / "new").exists()


def test_verify_finds_a_damaged_file_and_no_file(backup, tmp_path):
    with (backup / "ledger.sqlite").open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xff" * 4096)
    assert "ledger_corrupt" in millrace("verify", backup, code=3)
    assert "there is no ledger in" in millrace("verify", tmp_path, code=3)


def test_a_ledger_in_use_is_neither_verified_nor_overwritten(backup, broker, tmp_path):
    assert "ledger_in_use" in millrace("verify", tmp_path / "ledger", code=3)
    assert "there is a ledger in" in millrace("restore", backup, tmp_path / "ledger", code=3)
    broker.terminate()
    assert "50 jobs" in millrace("verify", tmp_path / "ledger")


def test_rolling_restarts_lose_and_double_nothing(broker, context, start_worker):
    worker = start_worker()
    for _ in range(3):
        worker.await_committed(len(worker.committed) + 50)
        millrace("drain", "--broker", broker.endpoint("clients"))
        assert broker.process.wait(PATIENCE_S) == 0
        broker.start()
    worker.await_committed(len(worker.committed) + 50)
    worker.stop()
    client = client_of(context, broker)
    entries = read_all(client)
    assert [x["number"] for x in entries] == list(range(1, len(entries) + 1))
    assert len({x["job"] for x in entries}) == len(entries) >= len(worker.committed)
    _, status = client.ask("status_request")
    assert total(status["counts"]) >= len(worker.acknowledged)
    assert status["counts"].get("failed", 0) == 0
    for name in list(worker.acknowledged)[::50]:
        assert client.ask("status_request", job=name)[0] == "status_answer", name


def test_only_operators_back_up_and_drain_and_each_command_is_logged(tmp_path):
    keys = Keys(tmp_path)
    who = {role: keys.new(role, "acme", role) for role in ("admin", "submit", "operate")}
    broker = KeyedBroker(tmp_path, keys, log_level="error")
    context = zmq.Context()
    peers = {}
    for role, key in who.items():
        peers[role] = Peer(context, broker.endpoint("clients"), key=key, role="client", name=role)
        peers[role].join()
    for role in ("admin", "submit"):
        for message in ("backup_request", "drain_request"):
            kind, refused = peers[role].ask(message, name="x")
            assert kind == "refused" and refused["error"]["code"] == "unauthorized"
    assert peers["operate"].ask("submit", jobs=[job("a")])[0] == "refused"
    assert peers["operate"].ask("status_request")[0] == "status_answer"
    assert peers["operate"].ask("status_request", job="a")[0] == "refused"
    peers["submit"].ask("submit", jobs=[job("a", batch="lot")])
    assert peers["submit"].ask("change_pause", all=True)[0] == "pause_changed"
    peers["submit"].ask("change_pause", all=True, paused=False)
    peers["submit"].ask("change_batch", batch="lot", close=True)
    for message in ("cancel", "retry", "drop"):
        peers["submit"].ask(message, batch="lot")
    peers["submit"].ask("cancel", batch="nothing")
    peers["admin"].ask("keep", stream="results", set={"age_s": 60})
    peers["admin"].ask("trim", stream="nowhere", first=1)
    assert peers["operate"].ask("backup_request", name="../x")[0] == "refused"
    keys.new("late", "other", "read")
    until = time.monotonic() + PATIENCE_S
    while "added late" not in broker.told():
        assert time.monotonic() < until
        time.sleep(0.02)
    at = ("--broker", broker.endpoint("clients"), "--key", tmp_path / "operate.key")
    millrace("backup", "b", *at)
    millrace("drain", *at)
    assert broker.process.wait(PATIENCE_S) == 0
    audit = [x.split('what="')[1].rstrip('"') for x in broker.told().splitlines() if "audit" in x]
    submit, admin, operate = (f"key {name} of tenant acme: "
                              for name in ("submit", "admin", "operate"))
    wanted = [
        submit + "done: change_pause all=true paused=true (changed=true)",
        submit + "done: change_pause all=true paused=false (changed=true)",
        submit + "done: change_batch batch=lot close=true",
        submit + "done: cancel batch=lot (cancelled=1 requested=0 ended=0 unknown=0)",
        submit + "done: retry batch=lot (retried=0 not_failed=0 unknown=0)",
        submit + "done: drop batch=lot (dropped=0 not_failed=0 unknown=0)",
        submit + "refused as not_found: cancel batch=nothing (",
        admin + "done: keep stream=results age_s=60",
        admin + "refused as not_found: trim stream=nowhere first=1 (",
        operate + "refused as usage: backup_request name=../x (",
        "the list of keys: added late (tenant other, roles read)",
        operate + "done: backup_request name=b (folder=",
        operate + "begun: drain_request engines=false"]
    assert [line[:len(start)] for line, start in zip(audit, wanted)] == wanted
    assert len(audit) == len(wanted), audit
    assert not any(Key(tmp_path / f"{name}.key").public in broker.told() for name in (*who, "late"))
    context.destroy(linger=0)
