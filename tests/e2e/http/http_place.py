"""A broker with its HTTP face, and stub engines for it, in a temporary folder."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "python" / "src"))
import millrace  # noqa: E402

BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve() / "bin"
HELLO = [{"role": "user", "content": "Hello"}]


def program(name):
    path = BIN / name
    assert path.exists(), f"{path} is missing: build first (ops/test does), or set MILLRACE_BUILD"
    return str(path)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {PATIENCE_S} s")


def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, text=True,
                              capture_output=True).stdout.strip().splitlines()[-1]
    assert pathlib.Path(path).exists(), f"MILLRACE_MODEL names {path}, which does not exist"
    return path


def start_serve(folder, *options):
    """A running `millrace serve`, and the address that it tells."""
    process = subprocess.Popen(
        [program("millrace"), "serve", "--model", model_path(), "--http", "127.0.0.1:0",
         "--folder", str(folder), "--json", *options], stdout=subprocess.PIPE, text=True,
        stderr=open(str(folder) + ".log", "ab"))
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "listening":
            return process, event["message"].split()[2]
    raise AssertionError(pathlib.Path(str(folder) + ".log").read_text())


class Place:
    def __init__(self, folder, *options):
        self.folder = pathlib.Path(folder)
        self.sockets = tempfile.mkdtemp(prefix="mr-")  # pytest's folders are too long for sockets
        self.options = [str(x) for x in options]
        self.processes = []
        self.bound = {}

    def start_broker(self, http=True):
        endpoints = []
        for option, name in (("--listen", "clients"), ("--listen-engines", "engines"),
                             ("--listen-doorbell", "bell")):
            endpoints += [option, f"ipc://{self.sockets}/{name}"]
        self.broker = subprocess.Popen(
            [program("millrace-broker"), *endpoints,
             *([] if "--ledger" in self.options else ["--ledger", str(self.folder / "ledger")]),
             *([] if not http or "--http" in self.options else ["--http", "127.0.0.1:0"]),
             *(self.options if http else [])],
            stdout=subprocess.PIPE, text=True, stderr=open(self.folder / "broker.log", "ab"))
        self.processes.append(self.broker)
        for line in self.broker.stdout:
            name, _, endpoint = line.strip().partition(" ")
            self.bound[name] = endpoint
            if name == "ready":
                return self
        raise AssertionError((self.folder / "broker.log").read_text())

    def start_engine(self, *options, model="stub"):
        engine = subprocess.Popen(
            [program("stub_engine"), "--broker", f"ipc://{self.sockets}/engines", "--model-name",
             model, *options], stderr=open(self.folder / "engine.log", "ab"))
        self.processes.append(engine)
        until(lambda: model in [x["id"] for x in self.get("/v1/models")[1].get("data", [])],
              "engine")
        return engine

    def start_keyed_engine(self, key):
        engine = subprocess.Popen([program("stub_engine"), "--broker",
                                   f"ipc://{self.sockets}/engines", "--key", str(key)],
                                  stderr=open(self.folder / "engine.log", "ab"))
        self.processes.append(engine)
        return engine

    @property
    def url(self):
        return self.bound["http"]

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def get(self, path, **headers):
        """The status and the body of an answer."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def post(self, path, body, **headers):
        """The status, the body and the headers of an answer."""
        try:
            with self.open(path, body, **headers) as answer:
                return answer.status, json.loads(answer.read()), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()), error.headers

    def open(self, path, body, **headers):
        """The answer, to be read."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data,
                                         {"Content-Type": "application/json", **headers})
        return urllib.request.urlopen(request, timeout=PATIENCE_S)

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def jobs(self, state=None):
        """The jobs of the face's stream, as the broker lists them."""
        with millrace.Client(f"ipc://{self.sockets}/clients") as client:
            asked = {"stream": "http", **({"state": state} if state else {})}
            return client.call("jobs_request", **asked)["jobs"]

    def jobs_of_batch(self, batch):
        """The ids of all jobs of a batch."""
        with millrace.Client(f"ipc://{self.sockets}/clients") as client:
            ids, asked = [], {"batch": batch}
            while True:
                answer = client.call("jobs_request", **asked)
                ids += [x["job"] for x in answer["jobs"]]
                if not answer["more"]:
                    return ids
                asked["after"] = answer["next"]

    def memory_mib(self):
        status = pathlib.Path(f"/proc/{self.broker.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.sockets, ignore_errors=True)


def places_of(kind, tmp_path_factory, name):
    """Yields a function that starts brokers of this kind with options; they end with the test."""
    places = []

    def make(*options):
        places.append(kind(tmp_path_factory.mktemp(name), *options).start_broker())
        return places[-1]
    yield make
    for one in places:
        one.close()
