"""The servers that bench/queue puts under load: millrace-broker, RabbitMQ, NATS JetStream and
PostgreSQL with the queues in it.

Each keeps its files in a folder of its own on the disk to be measured, listens on loopback or on a
socket there, and is on disk before it acknowledges. RabbitMQ and PostgreSQL are Debian's packages;
NATS is built from its Go module.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import time

from .run import BIN, CACHE, ROOT, Failed

PATIENCE_S = 120
PEERS = ROOT / "bench/queue_peers"


def load(program, kind, endpoint, *options):
    """Runs one load and returns its figures."""
    command = [str(x) for x in (program, kind, endpoint, *options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout)


def resident_mb(pid):
    fields = pathlib.Path(f"/proc/{pid}/status").read_text().split("\n")
    return next(int(x.split()[1]) for x in fields if x.startswith("VmRSS")) / 1024


def sync_ms(folder):
    """The median time of fdatasync after an append of 4 KiB, the least that a commit can take."""
    path, page, times = pathlib.Path(folder) / "sync", b"x" * 4096, []
    with open(path, "wb", buffering=0) as file:
        for _ in range(300):
            file.write(page)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1e3 * (time.perf_counter() - begin))
    path.unlink()
    return statistics.median(times)


class Server:
    """A server process with its folder. `stop` ends it; `remove` also deletes what it stored."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process = None

    def launch(self, command, environment=None, **options):
        self.process = subprocess.Popen([str(x) for x in command], env=environment,
                                        stderr=open(self.folder / "errors", "ab"), **options)

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process = None

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ended(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.process.args[0]} ended: {(self.folder / 'errors').read_text()}")

    def wait_until(self, ready):
        end = time.monotonic() + PATIENCE_S
        while not ready():
            self.ended()
            if time.monotonic() > end:
                raise Failed(f"{self.process.args[0]} is not ready after {PATIENCE_S} s")
            time.sleep(0.05)


class Broker(Server):
    """millrace-broker; with a folder of keys it listens on TCP."""

    def __init__(self, folder, keys=None, ledger=None):
        super().__init__(folder)
        self.keys = keys
        self.ledger = ledger or self.folder / "ledger"
        self.endpoints = {}

    def start(self):
        where = ((lambda name: "tcp://127.0.0.1:*") if self.keys else
                 (lambda name: f"ipc://{self.folder}/{name}"))
        command = [BIN / "millrace-broker", "--ledger", self.ledger,
                   "--log-level", "warn", "--listen", where("clients"),
                   "--listen-engines", where("engines"), "--listen-doorbell", where("doorbell")]
        self.launch(command + (["--keys", self.keys] if self.keys else []),
                    stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line == "ready\n":
                return self
            name, self.endpoints[name] = line.split()
        self.process.wait()
        self.ended()
        raise Failed("the broker closed its output")

    def load(self, kind, *options):
        endpoint = self.endpoints["engines" if kind in ("work", "hand-out") else "clients"]
        return load(BIN / "queue_load", kind, endpoint, *options)


class Postgres(Server):
    """PostgreSQL with Debian's settings, on a socket in its folder. QUEUES are peers in it: their
    loads in queue_peers, and how many jobs their workers hold together at their best rate."""

    QUEUES = {"River": ("river", 100), "pgmq's shape": ("pgmq", 256),
              "a plain table": ("table", 256)}

    def start(self):
        self.folder.parent.chmod(0o711)  # the server may run as another user
        self.launch([ROOT / "tests/support/postgres_server", self.folder, "shared_buffers=128MB"],
                    text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait()
            self.ended()
        return self

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(PATIENCE_S)
            self.process = None

    def load(self, queue, kind, jobs):
        """Jobs a second that go into one of the QUEUES, or that end there with a result."""
        name, in_flight = self.QUEUES[queue]
        return load(PROGRAMS / "queue_peers", f"{name}-{kind}", self.url, "-messages", jobs,
                    "-in-flight", in_flight)["per_second"]


PROGRAMS = CACHE / "queue_peers"


def build_peers():
    """Builds the loads of the peers, and nats-server."""
    if shutil.which("go") is None:
        raise Failed("the peers' loads are written in Go, and there is no go")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for package, name in ((".", "queue_peers"),
                          ("github.com/nats-io/nats-server/v2", "nats-server")):
        done = subprocess.run(["go", "build", "-o", str(PROGRAMS / name), package], cwd=PEERS,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"go build {package}: {done.stderr.strip()}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Nats(Server):
    """JetStream that syncs each message before it confirms it."""

    def start(self):
        port = free_port()
        settings = self.folder / "nats.conf"
        settings.write_text(f"listen: 127.0.0.1:{port}\n"
                            f'jetstream {{ store_dir: "{self.folder}", sync_interval: always }}\n')
        self.url = f"nats://127.0.0.1:{port}"
        self.launch([PROGRAMS / "nats-server", "-c", settings])
        self.wait_until(lambda: answers(port))
        return self

    def load(self, kind, *options):
        return load(PROGRAMS / "queue_peers", f"nats-{kind}", self.url, *options)


class Rabbit(Server):
    """RabbitMQ with one node and quorum queues, which sync before they confirm."""

    def start(self):
        # The wrapper on the path would run it as the user rabbitmq, who cannot write here.
        server = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        if not server.exists():
            raise Failed("RabbitMQ is not installed: run ops/setup --peers")
        port = free_port()
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 100MB\n")
        (self.folder / "plugins").write_text("[].\n")
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        self.launch([server], {
            **os.environ, "HOME": str(self.folder), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"queue{port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/data",
            "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
        }, stdout=subprocess.DEVNULL)
        self.wait_until(lambda: answers(port))
        return self

    def load(self, kind, *options):
        return load(PROGRAMS / "queue_peers", f"rabbit-{kind}", self.url, *options)
