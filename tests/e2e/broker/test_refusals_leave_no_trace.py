"""A refused call changes nothing and uses no number: the tests compare whole ledgers."""
import pathlib
import sqlite3
import subprocess

import msgpack
import pytest

from patience import PATIENCE_S
from wire import Peer, job

BATCH_ID_TOO_LONG = "x" * 257


def ledger_file(broker):
    files = [p for p in pathlib.Path(broker.folder, "ledger").rglob("*")
             if p.is_file() and p.read_bytes()[:15] == b"SQLite format 3"]
    assert len(files) == 1, files
    return files[0]


def dump(broker):
    """Returns every table and setting of the ledger; the broker must not run."""
    connection = sqlite3.connect(ledger_file(broker))
    try:
        version = connection.execute("PRAGMA user_version").fetchone()
        return [f"user_version {version}", *connection.iterdump()]
    finally:
        connection.close()


def numbers(broker):
    """Returns the number of each job in its queue; the broker must not run."""
    connection = sqlite3.connect(ledger_file(broker))
    try:
        return dict(connection.execute("SELECT job, sequence FROM jobs"))
    finally:
        connection.close()


def restarted(broker):
    broker.start()


def stopped(broker):
    assert broker.terminate() == 0
    return dump(broker)


SUBMITS = [
    job("neg", n=0), job("prio", priority=17), {"id": "none", "model": "*"},
    job("nan", temperature=float("nan")), job("inf", top_p=float("inf")),
    job("past", deadline_us=1),
    job("stop", stop=""), job("many", stop=["a"] * 65), job("strict", strict=True, no_such_field=1),
    job("task", task="dream"), job("stream", stream="$models"), job("model", model="nobody"),
    job("sequence", stop_token_sequences=[[]]), job("markers", markers="some"),
    job("loop", repetition_detection={"max_pattern_size": 4, "min_count": 1}),
    job("partials", partials="yes"), job("good", prompt="another body: a conflict"),
    job(BATCH_ID_TOO_LONG), "not a map",
]

CALLS = [
    ("cancel", {}), ("cancel", {"jobs": ["good"], "batch": "b"}),
    ("cancel", {"jobs": ["x"] * 10_001}), ("cancel", {"jobs": [5]}),
    ("cancel", {"jobs": ["nobody"]}),
    ("retry", {}), ("retry", {"jobs": ["good"], "batch": "b"}), ("retry", {"jobs": ["good"]}),
    ("acknowledge", {"stream": "results", "cursor": "me", "number": 5}),
    ("acknowledge", {"stream": "results", "cursor": "", "number": 0}),
    ("acknowledge", {"stream": "results", "number": 0}),
    ("fetch", {"epoch": "of-another-log"}), ("fetch", {"from": -1}),
    ("watch", {"stream": ""}), ("watch", {"stream": BATCH_ID_TOO_LONG}), ("watch", {"on": 3}),
    ("ends", {"ends": []}), ("partials", {"entries": []}), ("release", {"leases": [1]}),
    ("submit", {"jobs": 5}), ("submit", {"jobs": [job("y")] * 10_001}),
]


def test_refused_submits_cancels_and_updates(broker, context):
    client = Peer(context, broker.endpoint("clients"), role="client", name="test")
    client.join()
    _, body = client.ask("submit", jobs=[job("good"), job("late", batch="b")])
    assert [a.get("error") for a in body["answers"]] == [None, None]
    stopped(broker)
    restarted(broker)
    before = stopped(broker)
    restarted(broker)
    client = Peer(context, broker.endpoint("clients"), role="client", name="test")
    client.join()
    for one in SUBMITS:
        kind, body = client.ask("submit", jobs=[one])
        error = body["error"] if kind == "refused" else body["answers"][0].get("error")
        assert error and error["message"], one
    for name, call in CALLS:
        kind, body = client.ask(name, **call)
        nothing = kind in ("cancelled", "retried") and not any(
            body[k] for k in ("cancelled", "requested", "retried") if k in body)
        assert kind == "refused" or nothing, (name, kind, body)
    client.send_raw(msgpack.packb({"v": 1, "kind": "submit", "id": 5, "body": {
        "jobs": [job("z")]}})[:-1])
    assert client.wait("refused")["error"]["code"] == "malformed_frame"
    assert stopped(broker) == before
    # The next job gets the same number as without the refused calls.
    restarted(broker)
    client = Peer(context, broker.endpoint("clients"), role="client", name="test")
    client.join()
    client.ask("submit", jobs=[job("next")])
    assert broker.terminate() == 0
    assert numbers(broker) == {"good": 1, "late": 2, "next": 3}


@pytest.mark.parametrize("stale", [1, 2**40])
def test_refused_messages_of_engines(broker, context, stale):
    client = Peer(context, broker.endpoint("clients"), role="client", name="test")
    client.join()
    client.ask("submit", jobs=[job("good")])
    stopped(broker)
    restarted(broker)
    before = stopped(broker)
    restarted(broker)
    engine = Peer(context, broker.endpoint("engines"), role="engine", name="e", instance="e-1",
                  model="")
    engine.join()
    kind, body = engine.ask("ends", ends=[{"lease": stale, "state": "completed",
                                           "result": {"choices": []}}])
    assert kind == "committed" and body["stale"] == [stale]
    engine.say("release", leases=[stale])
    engine.say("partials", entries=[{"lease": stale, "text": "x"}])
    kind, _ = engine.ask("heartbeat", leases=list(range(1, 4_200)))
    assert kind == "refused"
    assert stopped(broker) == before


def test_a_refused_restore_leaves_the_ledger_alone(broker):
    before = stopped(broker)
    connection = sqlite3.connect(ledger_file(broker))
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version + 1000}")
    connection.commit()
    connection.close()
    newer = dump(broker)
    assert newer[1:] == before[1:] and newer != before
    done = subprocess.run(broker.command(), capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 3 and "ledger_newer" in done.stdout + done.stderr
    assert dump(broker) == newer
