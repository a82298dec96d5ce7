"""A real broker whose disk fills up. It first refuses submits and still stores results. When even
results do not fit, it stops; started again with room on the disk, it goes on where it was."""
import os
import time

import msgpack
import pytest
import zmq

from patience import PATIENCE_S
from wire import BUILD, ROOT, Broker, Peer, end, job, read_all

MIB = 1024 * 1024
LIBRARY = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "tests" / "libsmall_disk.so"


class SmallDisk:
    def __init__(self, folder, size):
        assert LIBRARY.exists(), f"{LIBRARY} is missing: build the target small_disk"
        self.folder, self.control = folder / "ledger", folder / "disk-size"
        self.resize(size)
        self.environment = {"LD_PRELOAD": str(LIBRARY), "SMALL_DISK_FOLDER": str(self.folder),
                            "SMALL_DISK_BYTES": str(self.control),
                            "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def resize(self, size):
        draft = self.control.with_suffix(".new")
        draft.write_text(f"{size}\n")
        draft.replace(self.control)

    def used(self):
        return sum(x.stat().st_size for x in self.folder.iterdir())

    def shut(self):
        """From now on, no file can grow."""
        self.resize(self.used())


@pytest.fixture
def disk(tmp_path, monkeypatch):
    disk = SmallDisk(tmp_path, 96 * MIB)
    for name, value in disk.environment.items():
        monkeypatch.setitem(os.environ, name, value)
    return disk


def fill(client):
    """Submits until the disk is full. Returns the acknowledged jobs, and the refusal."""
    taken = []
    for i in range(200):
        name = f"fill-{i}"
        _, body = client.ask("submit", jobs=[job(name, prompt="x" * MIB)])
        refusal = body["answers"][0].get("error")
        if refusal:
            return taken, refusal
        taken.append(name)
    raise AssertionError("the disk never filled up")


def finish(broker, engine, lease):
    """Sends a result. Returns whether it is on disk; if not, the broker has stopped."""
    result = end(lease["lease"])
    result["result"]["choices"][0]["text"] = "y" * MIB
    engine.say("ends", ends=[result])
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        message = engine.receive(0.1)
        if message and message["kind"] == "committed":
            return message["body"]["committed"] == [lease["lease"]]
        if broker.process.poll() is not None:
            return False
    raise AssertionError("neither committed nor stopped")


def test_submits_are_refused_first_then_it_stops_and_nothing_is_lost(disk, tmp_path, context):
    broker = Broker(tmp_path, "--lease-ms", 600_000)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    engine = Peer(context, broker.endpoint("engines"), role="engine", instance="e", model="m")
    engine.join()
    names = [f"j{i}" for i in range(60)]
    client.ask("submit", jobs=[job(name, priority=0) for name in names])
    engine.say("ready", credit=60)
    leases = []
    while len(leases) < 60:
        leases += engine.wait("leases")["leases"]

    taken, refusal = fill(client)
    assert refusal["code"] == "disk_full" and refusal["hint"]
    disk.shut()
    done = []
    while finish(broker, engine, leases[len(done)]):
        done.append(leases[len(done)]["job"])
    # Each result has a MiB, and only the space reserved for results is left.
    assert len(done) >= 8, f"only {len(done)} results went in on a full disk"
    assert broker.process.wait(PATIENCE_S) == 1
    assert "disk_full" in (tmp_path / "broker.log").read_text()

    disk.resize(512 * MIB)
    broker.start()
    engine.join()
    client.join()
    for lease in leases[len(done):]:
        assert finish(broker, engine, lease)
    entries = read_all(client)
    assert [e["number"] for e in entries] == list(range(1, 61))
    assert [e["job"] for e in entries] == [x["job"] for x in leases]
    _, status = client.ask("status_request")
    assert status["counts"]["queued"] == len(taken)
    assert not client.ask("submit", jobs=[job("after")])[1]["answers"][0].get("error")
    broker.close()


def test_pushed_jobs_wait_until_there_is_room(disk, tmp_path, context):
    broker = Broker(tmp_path)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    fill(client)
    push = context.socket(zmq.PUSH)
    push.connect(broker.endpoint("push"))
    for name in ("p1", "p2"):
        push.send(msgpack.packb({"v": 1, "kind": "submit", "id": 0, "body": {
            "jobs": [job(name, prompt="x" * MIB)]}}))
    log = tmp_path / "broker.log"
    until = time.monotonic() + PATIENCE_S
    while "no room for pushed jobs" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    disk.resize(512 * MIB)
    states = {}
    until = time.monotonic() + PATIENCE_S
    while set(states) != {"p1", "p2"}:
        assert time.monotonic() < until, states
        for name in ("p1", "p2"):
            kind, body = client.ask("status_request", job=name)
            if kind == "status_answer":
                states[name] = body["state"]
        time.sleep(0.05)
    assert set(states.values()) == {"queued"}
    assert read_all(client, "rejected") == []
    push.close()
    broker.close()
