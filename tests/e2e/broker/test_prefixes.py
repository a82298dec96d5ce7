"""Jobs whose prompts begin alike go to one engine, on a real broker and with a real engine."""
import os
import pathlib
import subprocess
import time
import uuid

import msgpack
import pytest
import zmq
from patience import PATIENCE_S
from wire import PROGRAM, ROOT, Peer, end, job


@pytest.fixture
def model():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, capture_output=True,
                              text=True).stdout.splitlines()[-1]
    assert pathlib.Path(path).exists(), f"no model at {path}: run ops/model"
    return path


def alike(letter, number):
    return job(f"{letter}{number}", model="*", prompt=letter * 1024 + f" {number}")


def join(context, broker, name):
    peer = Peer(context, broker.endpoint("engines"), role="engine", name=name, instance=name,
                model="m")
    peer.join()
    return peer


def take(engine, count):
    """Takes so many jobs and returns their names and the numbers of their beginnings."""
    engine.say("ready", credit=count)
    leases = []
    while len(leases) < count:
        leases += engine.wait("leases")["leases"]
    engine.say("ends", ends=[end(x["lease"]) for x in leases])
    engine.wait("committed")
    return "".join(x["job"][0] for x in leases), {x["prefix"] for x in leases}


def test_engines_get_the_beginnings_that_they_announce(broker, client, context):
    one, two = join(context, broker, "one"), join(context, broker, "two")
    client.ask("submit", jobs=[alike("ab"[i % 2], i) for i in range(20)] + [job("short")])
    # The job without a beginning comes first: nobody has to wait for it.
    names, numbers = take(one, 5)
    assert names == "saaaa"
    a, = numbers - {0}
    names, numbers = take(two, 4)
    assert names == "bbbb", "the broker knows what the other engine was handed"
    b, = numbers
    # The engines tell otherwise.
    one.ask("heartbeat", leases=[], steps=1, credit=0, prefixes=[b])
    two.ask("heartbeat", leases=[], steps=1, credit=0, prefixes=[a])
    assert take(one, 3) == ("bbb", {b})
    assert take(two, 3) == ("aaa", {a})
    # An engine with nothing better to do takes what there is.
    assert take(one, 6)[0] == "bbbaaa"


class FakeBroker:
    """Takes one engine's frames, and answers its hello."""

    def __init__(self, context, endpoint):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(endpoint)
        self.route = None

    def say(self, kind, **body):
        frame = msgpack.packb({"v": 1, "kind": kind, "id": 0, "body": body})
        self.socket.send_multipart([self.route, frame])

    def wait(self, fits):
        """Returns the body of the next message for which fits(kind, body) holds."""
        until = time.monotonic() + PATIENCE_S
        while self.socket.poll(max(0.0, until - time.monotonic()) * 1000):
            self.route, frame = self.socket.recv_multipart()
            message = msgpack.unpackb(frame)
            if message["kind"] == "hello":
                self.say("welcome", version=1, broker="fake", heartbeat_ms=50)
            if fits(message["kind"], message["body"]):
                return message["body"]
        raise AssertionError("no such message")


def test_a_real_engine_announces_what_its_prefix_tree_holds(model, context, tmp_path):
    endpoint = f"ipc:///tmp/mr-{uuid.uuid4().hex[:12]}"
    broker = FakeBroker(context, endpoint)
    with open(tmp_path / "engine.log", "wb") as log:
        engine = subprocess.Popen([PROGRAM.parent / "millrace-engine", "--model", model,
                                   "--broker", endpoint], stdout=log, stderr=log)
    try:
        broker.wait(lambda kind, _: kind == "hello")
        prompts = ["The sea is wide. " * 70, "A list of tools: " * 70, "too short for a page"]
        for lease, prompt in enumerate(prompts, 1):
            body = {"model": "*", "prompt": prompt, "max_tokens": 2}
            broker.say("leases", leases=[{"lease": lease, "job": f"j{lease}", "body": body,
                                          "prefix": 4710 + lease}])
            ends = broker.wait(lambda kind, _: kind == "ends")["ends"]
            assert ends[0]["state"] == "completed", ends
            broker.say("committed", committed=[lease])
        beat = broker.wait(lambda kind, body: kind == "heartbeat" and len(body["prefixes"]) > 1)
        # What the last step left is told with the next one; nothing is held of a short prompt.
        assert beat["prefixes"] == [4712, 4711]
    finally:
        engine.kill()
        engine.wait()
