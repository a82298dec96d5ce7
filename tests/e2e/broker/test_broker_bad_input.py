"""A broker survives bad input: it refuses each message with its own error code and goes on."""
import msgpack
import pytest
import zmq

from wire import Peer, job, read_all


def envelope(kind="status_request", version=1, body=None):
    return msgpack.packb({"v": version, "kind": kind, "id": 77, "body": body or {}})


@pytest.mark.parametrize("frame, code", [
    (b"", "malformed_frame"),
    (envelope()[:-1], "malformed_frame"),
    (envelope() + b"\x00", "malformed_frame"),
    (b"\xc1", "malformed_frame"),
    (b"\xdd\xff\xff\xff\xff", "malformed_frame"),
    (b"\xdf\xff\xff\xff\xff", "malformed_frame"),
    (b"\xc6\xff\xff\xff\xff", "malformed_frame"),
    (b"\x91" * 100_000 + b"\xc0", "limit_exceeded"),
    (envelope(kind="dance"), "unknown_kind"),
    (envelope(version=9), "unsupported_version"),
    (msgpack.packb({"v": 1, "kind": "submit", "id": 1, "body": {"jobs": 5}}), "invalid_value"),
    (b"\x84\xa1v\x01\xa4kind\xaestatus_request\xa2id\x01\xa4body\x81\xa3job\xa2\xff\xfe",
     "invalid_utf8"),
], ids=["empty", "truncated", "trailing", "reserved byte", "array bomb", "map bomb", "bin bomb",
        "deep nesting", "unknown kind", "unknown version", "wrong type", "bad UTF-8"])
def test_broken_frames_are_refused_by_name(client, frame, code):
    client.send_raw(frame)
    body = client.wait("refused")
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert client.ask("status_request")[0] == "status_answer"


def raw_submit(*jobs):
    """A submit with id 77 whose jobs are these bytes."""
    assert len(jobs) < 16
    return (b"\x84" + msgpack.packb("v") + b"\x01" + msgpack.packb("kind")
            + msgpack.packb("submit") + msgpack.packb("id") + b"\x4d" + msgpack.packb("body")
            + b"\x81" + msgpack.packb("jobs") + bytes([0x90 + len(jobs)]) + b"".join(jobs))


BAD_JOBS = {
    "not UTF-8": (msgpack.packb({**job("bad"), "prompt": b"x"}).replace(b"\xc4\x01x", b"\xa1\xff"),
                  "invalid_utf8"),
    "an extension": (msgpack.packb({**job("bad"), "user": msgpack.Timestamp(1)}),
                     "malformed_frame"),
    "a key that is no string": (msgpack.packb({**job("bad"), 5: 5}), "malformed_frame"),
    "a key twice": (b"\x82" + 2 * (msgpack.packb("id") + msgpack.packb("bad")),
                    "malformed_frame"),
    "too deep": (b"\x82" + msgpack.packb("id") + msgpack.packb("bad") + msgpack.packb("tools")
                 + b"\x91" * 100 + b"\xc0", "limit_exceeded"),
    "no map": (msgpack.packb("bad"), "invalid_value"),
}


@pytest.mark.parametrize("bad, code", BAD_JOBS.values(), ids=BAD_JOBS)
def test_one_bad_job_is_refused_alone(client, bad, code):
    client.send_raw(raw_submit(msgpack.packb(job("a")), bad, msgpack.packb(job("b"))))
    message = client.receive()
    assert (message["kind"], message["id"]) == ("submitted", 77)
    first, refused, last = message["body"]["answers"]
    assert (first["job"], first["state"], last["job"]) == ("a", "queued", "b")
    assert refused["error"]["code"] == code and "state" not in refused
    assert refused["job"] == ("" if code == "invalid_value" else "bad")
    assert client.ask("status_request")[1]["counts"]["queued"] == 2


def test_a_frame_that_is_damaged_in_a_job_is_refused_under_its_id(client):
    client.send_raw(raw_submit(msgpack.packb(job("a")), b"\xc1"))
    message = client.receive()
    assert (message["kind"], message["id"]) == ("refused", 77)
    assert message["body"]["error"]["code"] == "malformed_frame"
    assert client.ask("status_request")[1]["counts"]["queued"] == 0


def test_whole_numbers_may_be_floats(client):
    _, body = client.ask("submit", jobs=[job("a", max_tokens=8, n=1)])
    _, again = client.ask("submit", jobs=[job("a", max_tokens=8.0, n=1.0)])
    assert "error" not in body["answers"][0]
    assert again["answers"][0]["known"]
    _, body = client.ask("submit", jobs=[job("b", max_tokens=8.5)])
    assert body["answers"][0]["error"]["code"] == "invalid_value"


def test_a_default_that_is_spelled_out_is_no_conflict(client):
    client.ask("submit", jobs=[job("a")])
    _, again = client.ask("submit", jobs=[job("a", n=1, priority=2, stream="results")])
    assert again["answers"][0]["known"] and "error" not in again["answers"][0]


def test_a_message_of_several_frames_is_refused(client):
    client.send_raw(envelope(), envelope())
    assert client.wait("refused")["error"]["code"] == "malformed_frame"


def test_a_refusal_names_the_frame_it_answers(client):
    client.send_raw(envelope(kind="dance"))
    while True:
        message = client.receive()
        if message["kind"] == "refused":
            break
    assert message["id"] == 77


def test_a_frame_over_the_limit_ends_the_connection_and_nothing_else(broker, context, client):
    flood = Peer(context, broker.endpoint("clients"), role="client", name="flood")
    flood.join()
    flood.send_raw(b"\xc4" + b"x" * (64 * 1024 * 1024))
    assert flood.receive(1) is None
    assert client.ask("status_request")[0] == "status_answer"


def test_roles_are_checked_per_message(client, engine, broker, context):
    for kind, body in (("ready", {"credit": 1}), ("heartbeat", {}), ("ends", {"ends": []}),
                       ("release", {"leases": [1]}), ("welcome", {"broker": "me"})):
        answer, refusal = client.ask(kind, **body)
        assert (answer, refusal["error"]["code"]) == ("refused", "unexpected_message"), kind
    for kind, body in (("submit", {"jobs": [job("a")]}), ("fetch", {}),
                       ("cancel", {"batch": "b"}), ("status_request", {})):
        answer, refusal = engine.ask(kind, **body)
        assert (answer, refusal["error"]["code"]) == ("refused", "unexpected_message"), kind
    wrong_endpoint = Peer(context, broker.endpoint("clients"))
    answer, refusal = wrong_endpoint.ask("hello", role="engine", instance="x", model="m")
    assert (answer, refusal["error"]["code"]) == ("refused", "unexpected_message")


def test_nothing_without_hello(broker, context):
    stranger = Peer(context, broker.endpoint("clients"))
    answer, refusal = stranger.ask("submit", jobs=[job("a")])
    assert (answer, refusal["error"]["code"]) == ("refused", "unexpected_message")
    assert "hello" in refusal["error"]["hint"]


def test_bad_jobs_are_refused_one_by_one(client):
    jobs = [job("good"), job("neg", n=0), job("prio", priority=17), {"id": "none", "model": "*"},
            job("nan", temperature=float("nan")), job("past", deadline_us=1),
            job("stop", stop=""), job("field", strict=True, no_such_field=1),
            job("big", prompt="x" * (8 * 1024 * 1024 + 1)), job("task", task="dream"),
            job("$", stream="$models")]
    kind, body = client.ask("submit", jobs=jobs)
    assert kind == "submitted"
    codes = [(a.get("error") or {}).get("code") for a in body["answers"]]
    assert codes[0] is None
    assert all(codes[1:]), codes
    assert codes[5] == "deadline_passed"
    assert codes[7] == "unknown_field"
    assert codes[8] == "too_large"
    assert codes[9] == "unknown_task"
    assert all(a["error"]["message"] for a in body["answers"][1:])
    _, status = client.ask("status_request")
    assert status["counts"]["queued"] == 1


def test_the_same_id_with_another_body_is_a_conflict(client):
    client.ask("submit", jobs=[job("a")])
    _, body = client.ask("submit", jobs=[job("a", prompt="something else"), job("a")])
    assert body["answers"][0]["error"]["code"] == "conflict"
    assert body["answers"][0]["job"] == "a" and "state" not in body["answers"][0]
    assert body["answers"][1]["known"]


def test_pushed_jobs_are_stored_or_written_to_the_rejected_stream(broker, context, client):
    push = context.socket(zmq.PUSH)
    push.connect(broker.endpoint("push"))
    push.send(msgpack.packb({"v": 1, "kind": "submit", "id": 0, "body": {
        "jobs": [job("a"), job("b", model="nobody", custom_id="line-2"),
                 job("c", n=0, custom_id="line-3")]}}))
    push.send(b"\xdd\xff\xff\xff\xff")
    push.send(envelope())
    entries = []
    while len(entries) < 4:
        entries = read_all(client, "rejected")
    assert [e["number"] for e in entries] == [1, 2, 3, 4]
    errors = {e["body"]["error"]["code"] for e in entries}
    assert errors == {"unknown_model", "invalid_value", "malformed_frame", "unexpected_message"}
    labels = {e["job"]: e["body"]["custom_id"] for e in entries if e["job"]}
    assert labels == {"b": "line-2", "c": "line-3"}
    _, status = client.ask("status_request", job="a")
    assert status["state"] == "queued"
    push.close()


def test_readers_are_told_of_another_epoch_and_of_unknown_jobs(client):
    _, refusal = client.ask("fetch", epoch="of-another-log")
    assert refusal["error"]["code"] == "epoch_changed"
    _, refusal = client.ask("status_request", job="nobody")
    assert refusal["error"]["code"] == "not_found"
    for kind in ("status_request", "cancel", "retry"):
        answer, refusal = client.ask(kind, batch="nothing")
        assert (answer, refusal["error"]["code"]) == ("refused", "not_found"), kind
    answer, status = client.ask("status_request", stream="nothing")
    assert (answer, status["high"]) == ("status_answer", 0)  # as earlier clients expect
    client.ask("hello", role="client", name="test", capabilities=["not_found"])
    _, refusal = client.ask("status_request", stream="nothing")
    assert refusal["error"]["code"] == "not_found"
    _, refusal = client.ask("cancel")
    assert refusal["error"]["code"] == "invalid_value"
    _, refusal = client.ask("acknowledge", stream="results", cursor="me", number=5)
    assert refusal["error"]["code"] == "not_found"
    client.ask("submit", jobs=[job("a", batch="some")])
    assert client.ask("status_request", batch="some")[1]["counts"]["queued"] == 1
    assert client.ask("retry", batch="some")[1]["not_failed"] == 0
