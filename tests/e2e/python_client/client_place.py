"""A broker and stub engines, and programs with the package, in a runtime folder of their own."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "client" / "python" / "src"
BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve() / "bin"


class Place:
    """A broker whose sockets are in `runtime`/millrace; restarts keep the ledger."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.runtime = tempfile.mkdtemp(prefix="mr-")  # pytest's folders are too long for sockets
        self.env = {**os.environ, "XDG_RUNTIME_DIR": self.runtime,
                    "PYTHONPATH": str(PACKAGE)}
        self.clients = f"ipc://{self.runtime}/millrace/clients"
        self.broker = None
        self.processes = []

    def start_broker(self, *options):
        log = open(self.folder / "broker.log", "ab")
        self.broker = subprocess.Popen(
            [BIN / "millrace-broker", "--ledger", self.folder / "ledger",
             "--lease-ms", "3000", *options], env=self.env,
            stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(self.broker)
        if "ready\n" not in iter(self.broker.stdout.readline, ""):
            raise AssertionError((self.folder / "broker.log").read_text())

    def start_engine(self, *options):
        engine = subprocess.Popen([BIN / "stub_engine", *options], env=self.env,
                                  stderr=open(self.folder / "engine.log", "ab"))
        self.processes.append(engine)
        return engine

    def kill_broker(self):
        self.broker.kill()
        self.broker.wait()

    def python(self, *words, **options):
        """Starts a program with the package."""
        process = subprocess.Popen([sys.executable, *map(str, words)], text=True,
                                   stdout=subprocess.PIPE, **{"env": self.env, **options})
        self.processes.append(process)
        return process

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        shutil.rmtree(self.runtime, ignore_errors=True)


def keys(*words):
    """`millrace keys`, which makes keys and says what each may do."""
    subprocess.run([BIN / "millrace", "keys", *map(str, words)], check=True, capture_output=True)


def until(ready, what):
    """Waits for what a function finds, and gives it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := ready()):
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.01)
    return found


def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, text=True,
                              capture_output=True).stdout.strip().splitlines()[-1]
    return path
