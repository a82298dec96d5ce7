"""Clients that ask and do not read: the broker bounds the bytes that wait for them."""
import pathlib
import time

import pytest
from patience import PATIENCE_S
from wire import Peer, end, job

MIB = 1024 * 1024
RESULT_BYTES = 4 * MIB
MEMORY_BYTES = 600 * MIB  # ZeroMQ's 8 answers of 16 MiB, 64 MiB that wait, and one read


def store_results(client, engine, count, result_bytes=RESULT_BYTES):
    client.ask("submit", jobs=[job(f"j{i}") for i in range(count)])
    engine.say("ready", credit=count)
    leases = []
    while len(leases) < count:
        leases += engine.wait("leases")["leases"]
    for lease in leases:
        result = end(lease["lease"])
        result["result"]["choices"][0]["text"] = "y" * result_bytes
        engine.ask("ends", ends=[result])


def peak_bytes(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.mark.memory
def test_a_client_that_fetches_and_never_reads_is_bounded(broker, client, engine, context):
    store_results(client, engine, 4)
    deaf = Peer(context, broker.endpoint("clients"), role="client", name="deaf")
    deaf.socket.rcvhwm = 1
    deaf.join()
    log = pathlib.Path(broker.folder, "broker.log")
    until = time.monotonic() + PATIENCE_S
    while "does not read its answers" not in log.read_text():
        assert time.monotonic() < until, "the broker does not bound the answers"
        deaf.say("fetch", **{"from": 1})
        time.sleep(0.01)
    assert peak_bytes(broker.process) < MEMORY_BYTES
    # The broker serves others, and this client, too, once it reads and sends hello again.
    assert client.ask("status_request")[0] == "status_answer"
    kinds, codes = set(), []
    while not codes or codes[-1] == "overloaded":  # a broker on a busy machine refuses fetches, too
        message = deaf.receive(0.2)
        if message is None:
            deaf.say("status_request")
            continue
        kinds.add(message["kind"])
        if message["kind"] == "refused":
            codes.append(message["body"]["error"]["code"])
    assert codes[-1] == "unexpected_message"
    assert "data" in kinds
    deaf.join()
    _, data = deaf.ask("fetch", **{"from": 4})
    assert [x["number"] for x in data["entries"]] == [4]


def test_answers_to_a_slow_reader_come_all_and_in_order(broker, client, engine, context):
    store_results(client, engine, 1)
    slow = Peer(context, broker.endpoint("clients"), role="client", name="slow")
    slow.socket.rcvhwm = 1
    slow.join()
    asked = [slow.say("fetch", **{"from": 1}) for _ in range(20)]
    time.sleep(0.5)
    got = []
    while len(got) < len(asked):
        message = slow.receive()
        assert message and message["kind"] == "data", message
        got.append(message["id"])
    assert got == asked
