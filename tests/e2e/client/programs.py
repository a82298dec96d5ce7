"""Helpers of the end-to-end tests: the real programs, a stub engine, files in temporary folders."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve() / "bin"
STUB = pathlib.Path(__file__).resolve().parent / "stub_engine.py"


def program(name):
    path = BIN / name
    assert path.exists(), f"{path} is missing: build first (ops/test does), or set MILLRACE_BUILD"
    return str(path)


def millrace(*words, text=None, **settings):
    """Runs a command to its end. Output is text unless the input is bytes."""
    return subprocess.run([program("millrace"), *words], text=not isinstance(text, bytes),
                          capture_output=True, input=text, timeout=PATIENCE_S, check=False,
                          **settings)


def wait_until(condition, what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def stop_all(processes, seconds):
    """Ends them, the last one first; kills one that has not ended after so many seconds."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def completion(custom_id, prompt, **fields):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/completions",
                       "body": {"prompt": prompt, **fields}})


class Run:
    """One `millrace run` setup: an input, an output, a stub engine with its log."""

    def __init__(self, folder):
        self.folder = folder
        self.input = folder / "jobs.jsonl"
        self.output = folder / "results.jsonl"
        self.log = folder / "engine-log"
        self.engine = folder / "engine"
        self.engine.write_text(f"#!/bin/sh\nexec {sys.executable} {STUB} \"$@\"\n")
        self.engine.chmod(0o755)
        self.env = {"STUB_LOG": str(self.log)}

    def write(self, lines):
        self.input.write_bytes(b"".join(
            (x if isinstance(x, bytes) else x.encode()) + b"\n" for x in lines))

    def command(self, *extra):
        return [program("millrace"), "run", "--model", "stub", "--engine", str(self.engine),
                "--input", str(self.input), "--output", str(self.output), *extra]

    def start(self, *extra):
        return subprocess.Popen(self.command(*extra), env={**os.environ, **self.env},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def go(self, *extra, expect=None):
        done = subprocess.run(self.command(*extra), env={**os.environ, **self.env}, text=True,
                              capture_output=True, timeout=PATIENCE_S, check=False)
        if expect is not None:
            assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def results(self):
        """Returns the results by input line number; fails if a line is there twice."""
        by_line = {}
        for line in self.output.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            number = int(record["id"].split("-")[0])
            assert number not in by_line, f"line {number} is in the output twice"
            by_line[number] = record
        return by_line

    def executions(self, word="start"):
        """Returns the job ids that the engine logged."""
        if not self.log.exists():
            return []
        return [x.split()[1] for x in self.log.read_text().splitlines()
                if x.startswith(word + " ") and len(x.split()) > 1]


class Broker:
    """A broker process of its own, and engines for it."""

    def __init__(self, folder):
        self.folder = folder
        self.clients = f"ipc://{folder}/clients"
        self.engines = f"ipc://{folder}/engines"
        self.processes = []
        self.broker = None

    def start(self, *options, lease_ms=3000):
        self.broker = subprocess.Popen(
            [program("millrace-broker"), "--ledger", str(self.folder / "ledger"), "--listen",
             self.clients, "--listen-engines", self.engines, "--listen-doorbell",
             f"ipc://{self.folder}/bell", "--lease-ms", str(lease_ms), *options],
            stdout=subprocess.DEVNULL, stderr=open(self.folder / "broker.log", "ab"))
        self.processes.append(self.broker)
        self.millrace("status", expect=0)

    def kill(self):
        self.broker.kill()
        self.broker.wait()

    def engine(self, **env):
        process = subprocess.Popen([sys.executable, str(STUB), "--broker", self.engines],
                                   env={**os.environ, **env})
        self.processes.append(process)
        wait_until(lambda: json.loads(self.millrace("status", "--json").stdout)["engines"],
                   "the engine's hello")
        return process

    def command(self, *words):
        return [program("millrace"), *words, "--broker", self.clients]

    def millrace(self, *words, expect=None, text=None):
        done = subprocess.run(self.command(*words), text=True, capture_output=True, input=text,
                              timeout=PATIENCE_S, check=False)
        if expect is not None:
            assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        path = subprocess.run([ROOT / "ops" / "model"], check=True, text=True,
                              capture_output=True).stdout.strip().splitlines()[-1]
    assert pathlib.Path(path).exists(), f"MILLRACE_MODEL names {path}, which does not exist"
    return path
