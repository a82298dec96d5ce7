"""A broker with keys: the folder that `millrace keys` makes, keys for sockets, a broker on TCP."""
import pathlib
import re
import subprocess

import zmq
from patience import PATIENCE_S
from wire import PROGRAM, Broker, Peer
from zmq.utils.monitor import recv_monitor_message

MILLRACE = PROGRAM.with_name("millrace")


class Key:
    """The key of a file; `secure` sets it on a socket."""

    def __init__(self, path, broker=None):
        self.path = pathlib.Path(path)
        fields = dict(line.split(" ", 1) for line in self.path.read_text().splitlines()
                      if not line.startswith("#"))
        self.public, self.secret = fields["public"], fields["secret"]
        self.broker = broker or fields.get("broker")

    def secure(self, socket):
        socket.curve_publickey = self.public.encode()
        socket.curve_secretkey = self.secret.encode()
        socket.curve_serverkey = self.broker.encode()


class Keys:
    """A broker's folder of keys, changed through the command."""

    def __init__(self, folder):
        self.home, self.folder = pathlib.Path(folder), pathlib.Path(folder) / "keys"
        self.run("init", self.folder)
        self.own = Key(self.folder / "broker.key")

    def run(self, *words, code=0):
        done = subprocess.run([MILLRACE, "keys", *[str(x) for x in words]], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def new(self, name, tenant, roles):
        path = self.home / f"{name}.key"
        self.run("new", path, "--keys", self.folder, "--name", name, "--tenant", tenant, "--roles",
                 roles)
        return Key(path)

    def stranger(self, name="stranger"):
        path = self.home / f"{name}.key"
        self.run("new", path, "--broker-key", self.own.public)
        return Key(path)

    def revoke(self, name):
        self.run("revoke", name, "--keys", self.folder)


class KeyedBroker(Broker):
    """A broker with keys on TCP, whose ports the system chooses."""

    def __init__(self, folder, keys, *options, environment=None, log_level="trace"):
        self.bound = {}
        self.environment = environment
        super().__init__(folder, "--keys", keys.folder, "--log-level", log_level, *options)

    def command(self, *extra):
        command = [str(PROGRAM), "--ledger", str(self.folder / "ledger")]
        for option in ("--listen", "--listen-engines", "--listen-doorbell", "--listen-push"):
            command += [option, "tcp://127.0.0.1:*"]
        return [*command, *self.options, *extra]

    def start(self):
        self.log = open(self.folder / "broker.log", "ab")
        self.process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=self.environment)
        for line in self.process.stdout:
            if line == "ready\n":
                return
            name, endpoint = line.split()
            self.bound[name] = endpoint
        raise AssertionError(self.told())

    def endpoint(self, name):
        return self.bound[name]

    def told(self):
        return (self.folder / "broker.log").read_text()

    def end(self):
        """Ends the broker and returns the counts that it logs."""
        assert self.terminate() == 0, self.told()
        last = [line for line in self.told().splitlines() if " ended " in line][-1]
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", last)}


FAILURES = {zmq.EVENT_HANDSHAKE_FAILED_AUTH: "key refused",
            zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "protocol",
            zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "no detail",
            zmq.EVENT_DISCONNECTED: "disconnected"}


def handshake(context, endpoint, key, kind=zmq.DEALER):
    """Connects and returns how the handshake ended: "admitted", or how it failed."""
    socket = context.socket(kind)
    socket.linger = 0
    monitor = socket.get_monitor_socket()
    if key:
        key.secure(socket)
    socket.connect(endpoint)
    try:
        while monitor.poll(PATIENCE_S * 1000):
            event = recv_monitor_message(monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                return "admitted"
            if event in FAILURES:
                return FAILURES[event]
    finally:
        socket.disable_monitor()
        monitor.close(0)
        socket.close(0)
    raise AssertionError("the handshake neither succeeded nor failed")


def client(context, broker, key):
    peer = Peer(context, broker.endpoint("clients"), key, role="client", name="test")
    peer.join()
    return peer
