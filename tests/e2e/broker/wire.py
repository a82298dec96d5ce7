"""A broker process and its peers, which use only pyzmq and msgpack, as foreign programs would."""
import os
import pathlib
import signal
import subprocess
import time
import uuid

import msgpack
import zmq
from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
PROGRAM = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "bin" / "millrace-broker"


class Broker:
    """A real `millrace-broker` with its ledger in `folder`. Restarts keep the endpoints."""

    def __init__(self, folder, *options):
        assert PROGRAM.exists(), f"{PROGRAM} is missing: build the target millrace-broker"
        self.folder = pathlib.Path(folder)
        self.options = [str(x) for x in options]
        # ipc paths are short (107 bytes), pytest's folders are not.
        self.sockets = f"/tmp/mr-{uuid.uuid4().hex[:12]}"
        self.process = None
        self.start()

    def endpoint(self, name):
        return f"ipc://{self.sockets}-{name}"

    def command(self, *extra):
        command = [str(PROGRAM), "--ledger", str(self.folder / "ledger")]
        for name, option in (("clients", "--listen"), ("engines", "--listen-engines"),
                             ("doorbell", "--listen-doorbell"), ("push", "--listen-push")):
            command += [option, self.endpoint(name)]
        return [*command, *self.options, *extra]

    def launch(self):
        self.log = open(self.folder / "broker.log", "ab")
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=self.log,
                                        text=True)

    def start(self):
        self.launch()
        for line in self.process.stdout:
            if line == "ready\n":
                return
        raise AssertionError((self.folder / "broker.log").read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        for name in ("clients", "engines", "doorbell", "push"):
            pathlib.Path(f"{self.sockets}-{name}").unlink(missing_ok=True)


class BrokerAt(Broker):
    """A broker whose ledger is at `place`."""

    def __init__(self, folder, place, *options):
        self.place = place
        super().__init__(folder, *options)

    def command(self, *extra):
        command = super().command(*extra)
        command[command.index("--ledger") + 1] = self.place
        return command


class Peer:
    """A DEALER session: `say` sends a message, `ask` also waits for the answer of the same id."""

    def __init__(self, context, endpoint, key=None, **hello):
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        if key:
            key.secure(self.socket)
        self.socket.connect(endpoint)
        self.hello = hello
        self.next_id = 1
        self.others = []

    def send_raw(self, *frames):
        self.socket.send_multipart(frames)

    def say(self, kind, **body):
        self.next_id += 1
        self.send_raw(msgpack.packb({"v": 1, "kind": kind, "id": self.next_id, "body": body}))
        return self.next_id

    def receive(self, timeout_s=PATIENCE_S):
        if not self.socket.poll(timeout_s * 1000):
            return None
        return msgpack.unpackb(self.socket.recv(), strict_map_key=False)

    def ask(self, kind, **body):
        wanted = self.say(kind, **body)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            message = self.receive(until - time.monotonic())
            if message is None:
                break
            if message["id"] == wanted:
                return message["kind"], message["body"]
            self.others.append(message)
        raise AssertionError(f"no answer to {kind}; seen: {self.others}")

    def wait(self, kind):
        """Returns the next message of this kind that is not an answer to `ask`."""
        until = time.monotonic() + PATIENCE_S
        while True:
            for i, message in enumerate(self.others):
                if message["kind"] == kind:
                    del self.others[i]
                    return message["body"]
            message = self.receive(max(0.0, until - time.monotonic()))
            assert message is not None, f"no {kind}; seen: {self.others}"
            self.others.append(message)

    def join(self):
        kind, body = self.ask("hello", **self.hello)
        assert kind == "welcome", body
        return body


def join(context, broker, port, **hello):
    peer = Peer(context, broker.endpoint(port), **hello)
    peer.join()
    return peer


def as_client(context, broker):
    return join(context, broker, "clients", role="client", name="c")


def as_engine(context, broker, number):
    return join(context, broker, "engines", role="engine", name="e", instance=f"e-{number}",
                model="m")


def job(name, **fields):
    return {"id": name, "model": "*", "prompt": f"say {name}", **fields}


def end(lease):
    result = {"choices": [{"index": 0, "text": "done", "finish_reason": "stop"}]}
    return {"lease": lease, "state": "completed", "result": result}


def read_all(client, stream="results"):
    entries, number = [], 1
    while True:
        kind, data = client.ask("fetch", stream=stream, **{"from": number})
        assert kind == "data", data
        if not data["entries"]:
            return entries
        entries += data["entries"]
        number = entries[-1]["number"] + 1
