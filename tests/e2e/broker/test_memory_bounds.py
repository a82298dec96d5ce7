"""Peers that send too much or do not read: the broker's memory stays bounded, and it gives back
what it took."""
import pathlib
import time

import msgpack
import pytest
from patience import PATIENCE_S
from test_slow_readers import store_results
from wire import Peer, job, read_all

MIB = 1024 * 1024


def memory_bytes(broker, name):
    for line in pathlib.Path(f"/proc/{broker.process.pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


def wait_until(condition, what):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def hello(**fields):
    return msgpack.packb({"v": 1, "kind": "hello", "id": 5, "body": fields})


@pytest.mark.parametrize("field, value", [
    ("name", "x" * 257), ("software", "x" * 257), ("instance", "x" * 257), ("model", "x" * 257),
    ("label", "x" * 20_000), ("kv_policies", ["x"] * 17), ("capabilities", ["x"] * 65),
    ("capabilities", ["x" * 257]), ("name", "\x1b[2J"), ("unknown", "x" * 70_000),
], ids=str)
def test_what_a_hello_may_hold_is_bounded(broker, context, field, value):
    peer = Peer(context, broker.endpoint("engines"))
    body = {"role": "engine", "instance": "i", "model": "m", field: value}
    answer, refusal = peer.ask("hello", **body)
    assert answer == "refused"
    assert refusal["error"]["code"] in ("limit_exceeded", "too_large", "invalid_value")
    assert "hello" in refusal["error"]["message"]


@pytest.mark.parametrize("kind, body", [
    ("fetch", {"stream": "x" * 257}), ("fetch", {"epoch": "x" * 257}),
    ("fetch", {"cursor": "x" * 257}), ("watch", {"stream": "x" * 257}),
    ("acknowledge", {"stream": "x" * 257, "cursor": "c", "number": 1}),
    ("acknowledge", {"stream": "s", "cursor": "x" * 257, "number": 1}),
    ("status_request", {"job": "x" * 257}), ("status_request", {"batch": "x" * 257}),
    ("cancel", {"batch": "x" * 257}), ("retry", {"jobs": ["x" * 257]}),
], ids=str)
def test_what_a_request_may_name_is_bounded(client, kind, body):
    answer, refusal = client.ask(kind, **body)
    assert (answer, refusal["error"]["code"]) == ("refused", "limit_exceeded")


@pytest.mark.memory
def test_large_hellos_of_many_peers_take_no_memory_for_good(broker, context, client):
    before = memory_bytes(broker, "VmRSS")
    peers = []
    for i in range(60):
        peer = Peer(context, broker.endpoint("clients" if i % 2 else "engines"))
        role = "client" if i % 2 else "engine"
        peer.send_raw(hello(role=role, name="n" * (12 * MIB), instance=f"i{i}", model="m"))
        peers.append(peer)
    for peer in peers:
        assert peer.wait("refused")["error"]["code"] == "limit_exceeded"
    assert client.ask("status_request")[1]["engines"] == []
    wait_until(lambda: memory_bytes(broker, "VmRSS") < before + 64 * MIB,
               "the broker keeps the memory of refused hellos")
    assert memory_bytes(broker, "VmHWM") < before + 60 * 2 * 12 * MIB
    assert pathlib.Path(broker.folder, "broker.log").stat().st_size < MIB


@pytest.mark.memory
def test_many_readers_that_do_not_read_delay_nobody(broker, client, engine, context):
    store_results(client, engine, 40, 4 * MIB // 16)
    before = memory_bytes(broker, "VmRSS")
    deaf = []
    for i in range(50):
        peer = Peer(context, broker.endpoint("clients"), role="client", name=f"deaf-{i}")
        peer.socket.rcvhwm = 1
        peer.join()
        for _ in range(16):
            peer.say("fetch", **{"from": 1})
        deaf.append(peer)
    # A reader that came last reads all, while the others have asked for 8 GiB and read nothing.
    assert len(read_all(client)) == 40
    # A pipe of ZeroMQ, its encoder, the backlog and one read: five answers of at most 1 MiB each.
    assert memory_bytes(broker, "VmHWM") < before + 50 * 5 * MIB + 64 * MIB
    # They get every answer in the end.
    for peer in deaf[:3]:
        for _ in range(16):
            assert peer.receive()["kind"] == "data"
    for peer in deaf:
        peer.socket.close()
    assert client.ask("submit", jobs=[job("after")])[0] == "submitted"
    wait_until(lambda: memory_bytes(broker, "VmRSS") < before + 96 * MIB,
               "the broker keeps the memory of unread answers")


def test_a_session_has_a_bounded_number_of_fetches_that_wait(broker, client, engine, context):
    store_results(client, engine, 8, MIB)
    deaf = Peer(context, broker.endpoint("clients"), role="client", name="deaf")
    deaf.socket.rcvhwm = 1
    deaf.join()
    asked = [deaf.say("fetch", **{"from": 1}) for _ in range(200)]
    client.ask("status_request")
    time.sleep(0.2)
    answers = {}
    while len(answers) < len(asked):
        message = deaf.receive()
        answers[message["id"]] = message
    assert sorted(answers) == asked
    kinds = {m["kind"] for m in answers.values()}
    codes = {m["body"]["error"]["code"] for m in answers.values() if m["kind"] == "refused"}
    assert kinds == {"data", "refused"} and codes == {"overloaded"}
