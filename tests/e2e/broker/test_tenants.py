"""Tenants on a real broker: what belongs to another tenant is answered like what does not exist."""
import time

import pytest
import zmq
from keyed import KeyedBroker, Keys
from patience import PATIENCE_S
from wire import Peer, end, job, read_all

ROLES = {"a": ("A", "submit,read"), "b": ("B", "submit,read"), "reader": ("A", "read"),
         "submitter": ("A", "submit"), "engine-a": ("A", "work"), "engine-b": ("B", "work"),
         "engine-all": ("*", "work")}


@pytest.fixture
def keys(tmp_path):
    keys = Keys(tmp_path)
    keys.of = {name: keys.new(name, *rights) for name, rights in ROLES.items()}
    return keys


@pytest.fixture
def broker(tmp_path, keys):
    broker = KeyedBroker(tmp_path, keys)
    yield broker
    broker.close()


@pytest.fixture
def peers(broker, keys, context):
    """Makes a session with the key of this name."""
    def join(key, **more):
        name, engine = key, key.startswith("engine")
        hello = {"role": "engine" if engine else "client", "name": name, **more}
        if engine:
            hello = {"instance": name, "model": "m", **hello}
        peer = Peer(context, broker.endpoint("engines" if engine else "clients"), keys.of[name],
                    **hello)
        peer.join()
        return peer
    return join


def complete(engine, count):
    """The engine takes so many jobs and completes them."""
    engine.say("ready", credit=count)
    done = 0
    while done < count:
        for lease in engine.wait("leases")["leases"]:
            engine.say("ends", ends=[end(lease["lease"])])
            engine.wait("committed")
            done += 1


def told_apart(peer, kind, theirs, absent):
    """Whether the answers differ in more than the name that was asked for."""
    def answer(body):
        text = str(peer.ask(kind, **body))
        for value in body.values():
            text = text.replace(str(value[0] if isinstance(value, list) else value), "NAME")
        return text
    return answer(theirs) != answer(absent)


def test_jobs_batches_streams_and_cursors_of_another_tenant_are_absent(peers):
    a, b = peers("a"), peers("b")
    a.ask("submit", jobs=[job("their-job", batch="their-batch", stream="theirs")])
    complete(peers("engine-a"), 1)
    assert len(read_all(a, "theirs")) == 1
    assert a.ask("acknowledge", stream="theirs", cursor="their-cursor", number=1)[0] == \
        "acknowledged"
    for kind, theirs, absent in (
            ("status_request", {"job": "their-job"}, {"job": "no-such-j"}),
            ("status_request", {"batch": "their-batch"}, {"batch": "no-such-bat"}),
            ("status_request", {"stream": "theirs"}, {"stream": "nosuch"}),
            ("fetch", {"stream": "theirs"}, {"stream": "nosuch"}),
            ("fetch", {"stream": "theirs", "from": 0, "cursor": "their-cursor"},
             {"stream": "nosuch", "from": 0, "cursor": "no-such-curs"}),
            ("cancel", {"jobs": ["their-job"]}, {"jobs": ["no-such-j"]}),
            ("cancel", {"batch": "their-batch"}, {"batch": "no-such-bat"}),
            ("retry", {"jobs": ["their-job"]}, {"jobs": ["no-such-j"]}),
            ("retry", {"batch": "their-batch"}, {"batch": "no-such-bat"}),
            ("acknowledge", {"stream": "theirs", "cursor": "their-cursor", "number": 1},
             {"stream": "nosuch", "cursor": "their-cursor", "number": 1})):
        assert not told_apart(b, kind, theirs, absent), kind
        # Of a batch that has ended there is nothing left to cancel or retry.
        if kind not in ("cancel", "retry") or "jobs" in theirs:
            assert told_apart(a, kind, theirs, absent), f"{kind}: the test sees no difference"
    # The same names in the other tenant are other things.
    assert b.ask("submit", jobs=[job("their-job", batch="their-batch", stream="theirs",
                                     prompt="another")])[1]["answers"][0]["known"] is False


def test_the_doorbell_rings_for_the_subscribers_tenant_alone(peers, broker, keys, context):
    a, b = peers("a"), peers("b")
    assert a.join()["doorbell_prefix"] == "A/" and b.join()["doorbell_prefix"] == "B/"
    heard = {}
    for name, topics in (("a", ["A/results"]),
                         ("b", ["B/results", "A/results", "A/", "", "results"]),
                         ("submitter", ["A/results"]), ("engine-all", ["A/results", "*/results"])):
        bell = heard[name] = context.socket(zmq.SUB)
        bell.linger = 0
        keys.of[name].secure(bell)
        for topic in topics:
            bell.subscribe(topic)
        bell.connect(broker.endpoint("doorbell"))
    engines = peers("engine-a"), peers("engine-b")
    for number in range(1, 6):
        for client, engine in zip((a, b), engines):
            client.ask("submit", jobs=[job(f"j{number}")])
            complete(engine, 1)
    # Rings repeat every second, so each subscriber hears its own stream in the end.
    for name, topic in (("a", b"A/results"), ("b", b"B/results")):
        rings = []
        while len(rings) < 3:
            assert heard[name].poll(PATIENCE_S * 1000), f"{name} hears nothing"
            rings.append(heard[name].recv_multipart())
        assert {ring[0] for ring in rings} == {topic}
    assert not heard["submitter"].poll(0) and not heard["engine-all"].poll(0)
    assert broker.end()["refused_connections"] >= 4
    for name in ("b", "submitter", "engine-all"):
        lines = [x for x in broker.told().splitlines() if keys.of[name].public in x]
        assert len([x for x in lines if "may not subscribe" in x]) == 1, name


def test_a_revoked_subscriber_hears_no_more_rings(peers, broker, keys, context):
    a = peers("a")
    bells = {}
    for name in ("reader", "a"):
        bell = bells[name] = context.socket(zmq.SUB)
        bell.linger = 0
        keys.of[name].secure(bell)
        bell.subscribe("A/results")
        bell.connect(broker.endpoint("doorbell"))
    engine = peers("engine-a")
    a.ask("submit", jobs=[job("before")])
    complete(engine, 1)
    for bell in bells.values():
        assert bell.poll(PATIENCE_S * 1000)
    session = peers("reader")
    keys.revoke("reader")
    session.wait("goodbye")
    a.ask("submit", jobs=[job("after")])
    complete(engine, 1)
    while bells["a"].recv_multipart()[2] != b"2":  # the other subscriber came back and hears it
        assert bells["a"].poll(PATIENCE_S * 1000)
    numbers = []
    while bells["reader"].poll(0):
        numbers.append(bells["reader"].recv_multipart()[2])
    assert b"2" not in numbers


def test_roles_are_enforced_counted_and_logged_once(peers, broker, context, keys):
    reader, submitter = peers("reader"), peers("submitter")
    wrong = [(reader, "submit", {"jobs": [job("x")]}), (reader, "cancel", {"jobs": ["x"]}),
             (reader, "retry", {"jobs": ["x"]}), (submitter, "fetch", {"stream": "results"}),
             (submitter, "watch", {"stream": "results"}),
             (submitter, "acknowledge", {"stream": "results", "cursor": "c", "number": 0})]
    for _ in range(3):
        for peer, kind, body in wrong:
            answer, said = peer.ask(kind, **body)
            assert (answer, said["error"]["code"]) == ("refused", "unauthorized"), kind
    for name, place, role in (("a", "engines", "engine"), ("engine-a", "clients", "client")):
        peer = Peer(context, broker.endpoint(place), keys.of[name])
        answer, said = peer.ask("hello", role=role, name="x", instance="i")
        assert (answer, said["error"]["code"]) == ("refused", "unauthorized"), name
    push = context.socket(zmq.PUSH)
    push.linger = 0
    keys.of["reader"].secure(push)
    push.connect(broker.endpoint("push"))
    other = Peer(context, broker.endpoint("push"))  # packs the message
    other.socket.close(0)
    other.socket = push
    other.say("submit", jobs=[job("pushed")])
    until = time.monotonic() + PATIENCE_S
    while "key reader of tenant A was refused" not in broker.told():
        assert time.monotonic() < until, broker.told()
    assert submitter.ask("status_request")[1]["counts"]["queued"] == 0
    counts = broker.end()
    assert counts["unauthorized"] >= 3 * len(wrong) + 2
    told = [x for x in broker.told().splitlines() if "was refused" in x and "key reader" in x]
    assert len(told) == 1  # the same reason for all that it sent


def test_an_engine_cannot_pass_for_another_keys_engine(peers):
    a = peers("a")
    a.ask("submit", jobs=[job("x")])
    own = peers("engine-a")
    own.say("ready", credit=1)
    lease = own.wait("leases")["leases"][0]["lease"]
    thief = peers("engine-b", instance="engine-a", name="engine-a")
    assert thief.ask("ends", ends=[end(lease)])[1]["stale"] == [lease]
    assert thief.ask("heartbeat", leases=[lease], steps=1, tokens=1, credit=1)[1]["lost"] == [lease]
    thief.say("release", leases=[lease])
    own.say("ends", ends=[end(lease)])
    assert own.wait("committed")["committed"] == [lease]
    assert [x["number"] for x in read_all(a)] == [1]


def test_a_peer_that_chooses_its_routing_id_gets_no_session(broker, keys, context):
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.routing_id = b"chosen"
    keys.of["a"].secure(socket)
    socket.connect(broker.endpoint("clients"))
    peer = Peer(context, broker.endpoint("clients"))
    peer.socket.close(0)
    peer.socket = socket
    answer, said = peer.ask("hello", role="client", name="x")
    assert answer == "refused" and "routing id" in said["error"]["message"]
    answer, said = peer.ask("fetch", stream="results")
    assert answer == "refused"
