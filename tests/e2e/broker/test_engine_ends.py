"""Ends that an engine sends: what the broker refuses, shortens or passes on, and that readers can
always read the results behind it."""
import json
import sqlite3
import subprocess

import msgpack
from patience import PATIENCE_S
from wire import PROGRAM, end, job

MIB = 1024 * 1024


def granted(engine, count):
    engine.say("ready", credit=count)
    leases = []
    while len(leases) < count:
        leases += engine.wait("leases")["leases"]
    return [lease["lease"] for lease in leases]


def leases_of(client, engine, *jobs):
    """Submits these jobs and returns their leases, in order."""
    kind, answer = client.ask("submit", jobs=list(jobs))
    assert kind == "submitted" and all(not x.get("error") for x in answer["answers"]), answer
    return granted(engine, len(jobs))


def results(broker):
    """Reads the stream with `millrace results`, which checks and decodes every frame."""
    done = subprocess.run([PROGRAM.parent / "millrace", "results", "--broker",
                           broker.endpoint("clients")], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return {line["id"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_an_end_without_its_state_is_refused(client, engine):
    [lease] = leases_of(client, engine, job("a"))
    stateless = end(lease)
    del stateless["state"]
    kind, body = engine.ask("ends", ends=[stateless])
    assert kind == "refused" and body["error"]["code"] == "missing_field", body
    assert "state" in body["error"]["message"]
    assert client.ask("status_request", job="a")[1]["state"] == "leased"


def test_a_completed_job_with_an_error_fails(broker, client, engine):
    [lease] = leases_of(client, engine, job("a"))
    both = {**end(lease), "error": {"code": "internal", "message": "odd", "hint": ""}}
    kind, body = engine.ask("ends", ends=[both])
    assert kind == "committed" and body["committed"] == [lease]
    error = results(broker)["a"]["error"]
    assert error["code"] == "engine_failed" and "completed with an error" in error["message"]


def nested(levels):
    return {"x": nested(levels - 1)} if levels > 1 else []


def test_a_result_nested_too_deep_fails_its_job_and_hides_no_other(broker, client, engine):
    # The frame of `ends` has 4 levels around a result, that of `data` 5; each may have 40 in all.
    levels = {"a": 12, "b": 8, "c": 7}
    leases = leases_of(client, engine, *map(job, levels))
    ends = [end(lease) for lease in leases]
    for one, depth in zip(ends, levels.values()):
        one["result"]["x"] = nested(depth - 1)
    kind, body = engine.ask("ends", ends=ends)
    assert kind == "committed" and body["committed"] == leases
    read = results(broker)
    for name in "ab":
        error = read[name]["error"]
        assert error["code"] == "engine_failed" and "nested too deep" in error["message"]
    assert read["c"]["error"] is None


def test_the_largest_result_and_the_longest_error_can_be_read(broker, client, engine):
    large, failed = leases_of(client, engine, job("large", metadata={"key": "m" * 16_000}),
                              job("failed"))
    whole = end(large)
    [choice] = whole["result"]["choices"]
    choice["text"] = "y" * 32 * MIB
    choice["text"] = choice["text"][:64 * MIB - len(msgpack.packb(whole["result"]))]
    assert len(msgpack.packb(whole["result"])) == 32 * MIB
    error = {"code": "kv_exceeded", "message": "z" * 33 * MIB, "hint": ""}
    for one in (whole, {"lease": failed, "state": "failed", "error": error}):
        kind, body = engine.ask("ends", ends=[one])
        assert kind == "committed" and body["committed"] == [one["lease"]]
    read = results(broker)
    assert read["large"]["error"] is None
    assert choice["text"] in json.dumps(read["large"]["response"])
    told = read["failed"]["error"]
    assert told["code"] == "kv_exceeded"
    assert told["message"].endswith(f"z... (the broker cut this text of {33 * MIB} bytes)")


def test_a_job_whose_labels_are_damaged_fails_alone_and_visibly(broker, client, engine):
    client.ask("submit", jobs=[job(name, metadata={"source": "test"}) for name in "ab"])
    broker.kill()
    ledger = sqlite3.connect(broker.folder / "ledger" / "ledger.sqlite")
    with ledger:
        damaged = ledger.execute("UPDATE jobs SET labels = x'00' WHERE job = 'a'")
        assert damaged.rowcount == 1
    ledger.close()
    broker.start()
    client.join()
    engine.join()
    leases = granted(engine, 2)
    kind, body = engine.ask("ends", ends=[end(lease) for lease in leases])
    assert kind == "committed" and body["committed"] == leases
    read = results(broker)
    assert read["a"]["error"]["code"] == "ledger_corrupt"
    assert "metadata" in read["a"]["error"]["message"]
    assert read["b"]["error"] is None
    counts = client.ask("status_request")[1]["counts"]
    assert (counts["failed"], counts["completed"]) == (1, 1)
