"""A real millrace-broker with its SQLite ledger over real sockets: crashes, restarts, stops."""
import subprocess
import threading
import time

import msgpack
import zmq

from patience import PATIENCE_S
from wire import Broker, Peer, end, job, read_all


def test_a_result_is_published_as_the_bytes_that_the_engine_sent(client, engine):
    client.ask("submit", jobs=[job("a")])
    engine.say("ready", credit=1)
    lease = engine.wait("leases")["leases"][0]["lease"]
    # These bytes have an unknown key and an encoding that our encoder would not produce.
    result = b"\xdf\0\0\0\2" + msgpack.packb("mood") + b"\xcf\0\0\0\0\0\0\0\7" \
        + b"\xda\0\7choices" + b"\xdd\0\0\0\0"
    end_bytes = b"\x83" + msgpack.packb("lease") + msgpack.packb(lease) \
        + msgpack.packb("state") + msgpack.packb("completed") + msgpack.packb("result") + result
    engine.send_raw(b"\x84" + msgpack.packb("v") + b"\1" + msgpack.packb("kind")
                    + msgpack.packb("ends") + msgpack.packb("id") + b"\x63" + msgpack.packb("body")
                    + b"\x81" + msgpack.packb("ends") + b"\x91" + end_bytes)
    assert engine.wait("committed")["committed"] == [lease]
    client.say("fetch", stream="results", **{"from": 1})
    assert client.socket.poll(30_000)
    frame = client.socket.recv()
    assert result in frame
    assert msgpack.unpackb(frame)["body"]["entries"][0]["body"]["result"]["mood"] == 7


def test_a_job_from_submit_to_result(client, engine, broker, context):
    bell = context.socket(zmq.SUB)
    bell.subscribe("results")
    bell.connect(broker.endpoint("doorbell"))
    _, body = client.ask("submit", jobs=[job("a", custom_id="line-1"), job("b")])
    assert [a["job"] for a in body["answers"]] == ["a", "b"]
    assert not any(a.get("error") for a in body["answers"])
    engine.say("ready", credit=4)
    leases = engine.wait("leases")["leases"]
    assert [x["job"] for x in leases] == ["a", "b"]
    assert leases[0]["body"]["prompt"] == "say a"
    _, committed = engine.ask("ends", ends=[end(x["lease"]) for x in leases])
    assert committed["committed"] == [x["lease"] for x in leases]
    entries = read_all(client)
    assert [e["number"] for e in entries] == [1, 2]
    assert entries[0]["body"]["custom_id"] == "line-1"
    assert entries[0]["body"]["attempts"] == 1
    # The doorbell repeats, so that late subscribers receive it, too.
    assert bell.poll(PATIENCE_S * 1000)
    stream, epoch, high = bell.recv_multipart()
    assert (stream, int(high)) == (b"results", 2)
    assert epoch.decode() == client.ask("fetch")[1]["epoch"]
    bell.close()


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, context):
    broker = Broker(tmp_path)
    acknowledged, stop = set(), threading.Event()

    def submit():
        number = 0
        while not stop.is_set():
            peer = Peer(context, broker.endpoint("clients"), role="client", name="producer")
            try:
                peer.socket.setsockopt(zmq.RCVTIMEO, 300)
                peer.say("hello", **peer.hello)
                while not stop.is_set():
                    peer.say("submit", jobs=[job(f"j{number + i}") for i in range(20)])
                    message = peer.receive(0.3)
                    while message and message["kind"] != "submitted":
                        message = peer.receive(0.3)
                    if message is None:
                        break  # the broker was killed: connect again and send the same jobs again
                    assert not any(a.get("error") for a in message["body"]["answers"])
                    acknowledged.update(a["job"] for a in message["body"]["answers"])
                    number += 20
            finally:
                peer.socket.close()

    producer = threading.Thread(target=submit)
    producer.start()
    try:
        for _ in range(5):
            before = len(acknowledged)
            until = time.monotonic() + PATIENCE_S
            while len(acknowledged) < before + 100 and time.monotonic() < until:
                time.sleep(0.02)
            broker.kill()
            broker.start()
    finally:
        stop.set()
        producer.join()
    assert len(acknowledged) >= 400
    client = Peer(context, broker.endpoint("clients"), role="client", name="reader")
    client.join()
    names = sorted(acknowledged)
    _, body = client.ask("submit", jobs=[job(name) for name in names])
    assert all(a["known"] for a in body["answers"])
    broker.close()


def test_kill_9_keeps_live_leases_and_results(tmp_path, context):
    broker = Broker(tmp_path)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    engine = Peer(context, broker.endpoint("engines"), role="engine", instance="e1", model="m")
    engine.join()
    client.ask("submit", jobs=[job("a"), job("b", model="m")])
    engine.say("ready", credit=2)
    leases = {x["job"]: x["lease"] for x in engine.wait("leases")["leases"]}
    engine.ask("ends", ends=[end(leases["a"])])
    broker.kill()
    broker.start()
    # The broker has lost both sessions, and says so.
    kind, body = engine.ask("heartbeat", leases=[leases["b"]], steps=1)
    assert (kind, body["error"]["code"]) == ("refused", "unexpected_message")
    engine.join()
    kind, body = engine.ask("heartbeat", leases=[leases["b"]], steps=1)
    assert (kind, body["lost"]) == ("heartbeat_answer", [])
    _, committed = engine.ask("ends", ends=[end(leases["b"]), end(leases["a"])])
    assert committed["committed"] == [leases["b"]]
    assert committed["stale"] == [leases["a"]]
    client.join()
    assert [e["job"] for e in read_all(client)] == ["a", "b"]
    # The broker still knows the model, which only the earlier engine served.
    engine.say("goodbye")
    _, body = client.ask("submit", jobs=[job("d", model="m"), job("x", model="nobody")])
    assert not body["answers"][0].get("error")
    assert body["answers"][1]["error"]["code"] == "unknown_model"
    broker.close()


def test_a_lease_lapses_and_the_late_result_is_stale(tmp_path, context):
    broker = Broker(tmp_path, "--lease-ms", 1000)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    slow = Peer(context, broker.endpoint("engines"), role="engine", instance="slow", model="m")
    slow.join()
    client.ask("submit", jobs=[job("a")])
    slow.say("ready", credit=1)
    old = slow.wait("leases")["leases"][0]["lease"]
    # Another engine stays alive by heartbeats.
    other = Peer(context, broker.endpoint("engines"), role="engine", instance="other", model="m")
    other.join()
    until = time.monotonic() + PATIENCE_S
    fresh = None
    steps = 0
    while fresh is None and time.monotonic() < until:
        steps += 1
        kind, _ = other.ask("heartbeat", leases=[], steps=steps, credit=1)
        if kind == "refused":
            other.join()
        for message in other.others:
            if message["kind"] == "leases":
                fresh = message["body"]["leases"][0]
        time.sleep(0.1)
    assert fresh and fresh["job"] == "a" and fresh["alone"] and fresh["attempt"] == 2
    slow.join()
    _, answer = slow.ask("ends", ends=[end(old)])
    assert answer["stale"] == [old]
    _, answer = other.ask("ends", ends=[end(fresh["lease"])])
    assert answer["committed"] == [fresh["lease"]]
    assert len(read_all(client)) == 1
    broker.close()


def test_sigterm_drains_and_says_goodbye(broker, client, engine):
    client.ask("submit", jobs=[job("a"), job("b")])
    engine.say("ready", credit=1)
    lease = engine.wait("leases")["leases"][0]["lease"]
    broker.process.terminate()
    until = time.monotonic() + PATIENCE_S
    while True:
        kind, body = client.ask("submit", jobs=[job("late")])
        if kind == "refused":
            break
        assert time.monotonic() < until
    assert body["error"]["code"] == "draining"
    _, committed = engine.ask("ends", ends=[end(lease)])
    assert committed["committed"] == [lease]
    assert broker.process.wait(PATIENCE_S) == 0
    client.wait("goodbye")
    engine.wait("goodbye")
    broker.start()
    client.join()
    assert [e["job"] for e in read_all(client)] == ["a"]
    _, status = client.ask("status_request")
    assert status["counts"]["queued"] >= 1


def test_a_second_broker_on_the_same_ledger_is_refused(broker, client):
    other = [x if not x.startswith("ipc://") else x + "-second" for x in broker.command()]
    second = subprocess.run(other, capture_output=True, text=True, timeout=PATIENCE_S)
    assert second.returncode == 3
    assert "ledger_in_use" in second.stderr
    assert client.ask("status_request")[0] == "status_answer"


def test_wrong_options_are_refused(tmp_path, broker):
    def run(*options):
        return subprocess.run([broker.command()[0], *options], capture_output=True, text=True,
                              timeout=PATIENCE_S, cwd=tmp_path)

    open_to_all = run("--ledger", "l2", "--listen", "tcp://0.0.0.0:*")
    assert open_to_all.returncode == 3
    assert "unauthorized" in open_to_all.stderr and "127.0.0.1" in open_to_all.stderr
    assert run("--lease-ms", "5").returncode == 2
    assert run("--no-such-option").returncode == 2
    assert run("--log-level", "loud").returncode == 2
    assert run("--config", "absent.toml").returncode == 2
    taken = run("--ledger", "l3", "--listen", broker.endpoint("clients") + "/no/folder")
    assert taken.returncode == 3 and "io_error" in taken.stderr
    (tmp_path / "file").write_text("x")
    assert run("--ledger", "file/ledger").returncode == 3
    shown = run("--help")
    assert shown.returncode == 0 and "Examples:" in shown.stdout


def test_a_configuration_file(tmp_path, broker):
    config = tmp_path / "broker.toml"
    config.write_text(f'[ledger]\nplace = "{tmp_path}/configured"\n[log]\njson = true\n[listen]\n'
                      'clients = "tcp://127.0.0.1:*"\nengines = "tcp://127.0.0.1:*"\n'
                      'doorbell = "tcp://127.0.0.1:*"\n')
    process = subprocess.Popen([broker.command()[0], "--config", str(config)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(4)]
    assert lines[0].startswith("clients tcp://127.0.0.1:") and lines[3] == "ready\n"
    process.terminate()
    _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert all(line.startswith("{") for line in log.splitlines())
    assert (tmp_path / "configured").exists()
