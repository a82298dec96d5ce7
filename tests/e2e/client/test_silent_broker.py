"""A broker that welcomes a client and then answers nothing: each command times out and says so."""
import json
import subprocess
import threading

import msgpack
import pytest
import zmq

from patience import PATIENCE_S
from programs import program


class SilentBroker:
    """A ROUTER that answers hello with welcome, and records all other messages."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.asked = []
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(endpoint)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while not self.ended.is_set():
            if not self.socket.poll(20):
                continue
            peer, frame = self.socket.recv_multipart()
            message = msgpack.unpackb(frame)
            if message["kind"] != "hello":
                self.asked.append(message["kind"])
                continue
            welcome = {"broker": "0" * 32, "version": 1, "heartbeat_ms": 1000, "lease_ms": 15000}
            self.socket.send_multipart([peer, msgpack.packb(
                {"v": 1, "kind": "welcome", "id": message["id"], "body": welcome})])

    def close(self):
        self.ended.set()
        self.thread.join()
        self.socket.close()
        self.context.term()


@pytest.fixture
def silent_broker(tmp_path_factory):
    broker = SilentBroker(f"ipc://{tmp_path_factory.mktemp('b')}/clients")
    yield broker
    broker.close()


@pytest.mark.parametrize("words, asks", [
    (["status"], "status_request"), (["cancel", "--batch", "b"], "cancel"),
    (["retry", "--batch", "b"], "retry"),
])
def test_a_question_without_an_answer_times_out(silent_broker, words, asks):
    done = subprocess.run(
        [program("millrace"), *words, "--broker", silent_broker.endpoint, "--timeout", "1",
         "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert silent_broker.asked == [asks]
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    error = json.loads(done.stderr.splitlines()[-1])
    assert (error["event"], error["code"]) == ("error", "timed_out")
    assert "within 1000 ms" in error["message"] and "--timeout" in error["hint"]
