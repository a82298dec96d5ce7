"""A producer and a consumer of several brokers, which turn to the next one when one is silent. They
use only pyzmq and msgpack, as foreign programs would."""
import threading
import time

import zmq
from wire import Peer, job

SILENCE_S = 2  # a broker that does not answer for so long may be dead
BATCH = 20


class Wanderer(threading.Thread):
    """A client in a thread of its own. `turn` is what it does again and again with its session."""

    def __init__(self, endpoints):
        super().__init__()
        self.endpoints = endpoints
        self.broker = self.moves = 0
        self.ending = threading.Event()
        self.failure = None

    def run(self):
        try:
            with zmq.Context() as context:
                while not self.ending.is_set():
                    peer = Peer(context, self.endpoints[self.broker], role="client", name="w")
                    self.use(peer)
                    peer.socket.close()
                    self.broker = (self.broker + 1) % len(self.endpoints)
                    self.moves += 1
        except Exception as failure:  # the test that joins the thread raises it
            self.failure = failure

    def use(self, peer):
        """Uses the session until its broker is silent, or takes no work."""
        if self.asked(peer, "hello", **peer.hello):
            while not self.ending.is_set() and self.turn(peer):
                pass

    def asked(self, peer, kind, **body):
        """The answer; None if it does not come, or is a refusal."""
        wanted, until = peer.say(kind, **body), time.monotonic() + SILENCE_S
        while (left := until - time.monotonic()) > 0:
            message = peer.receive(left)
            if message and message["id"] == wanted:
                return None if message["kind"] == "refused" else message["body"]
        return None

    def stop(self):
        self.ending.set()
        self.join()
        if self.failure:
            raise self.failure


class Producer(Wanderer):
    """Submits jobs until it is told to finish, and ends when all of them are acknowledged: a broker
    may store a submit long after its client has given up waiting. `acknowledged` has each
    acknowledged job with the time."""

    def __init__(self, endpoints, name, pause_s):
        super().__init__(endpoints)
        self.name_of_jobs, self.pause_s = name, pause_s
        self.acknowledged = {}
        self.batch = []  # not acknowledged yet: it is sent again, under the same ids
        self.finishing = threading.Event()

    def finish(self):
        self.finishing.set()

    def turn(self, peer):
        if self.finishing.is_set() and not self.batch:
            self.ending.set()
            return False
        first = len(self.acknowledged)
        self.batch = self.batch or [f"{self.name_of_jobs}-{first + i}" for i in range(BATCH)]
        body = self.asked(peer, "submit", jobs=[job(x, max_attempts=50) for x in self.batch])
        if body is None:
            return False
        refused = [x["error"] for x in body["answers"] if x.get("error")]
        if refused:
            assert all(x.get("retry_ms") for x in refused), refused
            return False
        now = time.monotonic()
        self.acknowledged |= {x: now for x in self.batch}
        self.batch = []
        self.ending.wait(self.pause_s)
        return True


class Consumer(Wanderer):
    """Reads a stream from its beginning, each number once and in order."""

    def __init__(self, endpoints, stream="results"):
        super().__init__(endpoints)
        self.stream = stream
        self.jobs = []  # of the numbers 1, 2, ...

    def turn(self, peer):
        body = self.asked(peer, "fetch", stream=self.stream, **{"from": len(self.jobs) + 1})
        if body is None:
            return False
        for entry in body["entries"]:
            assert entry["number"] == len(self.jobs) + 1, (entry["number"], len(self.jobs))
            self.jobs.append(entry["body"]["job"])
        if not body["entries"]:
            self.ending.wait(0.05)
        return True
