"""The worker program against a broker of pyzmq and msgpack alone: what a stranger would write.

stub_engine stands in for millrace-engine: everything but the executor is the same program.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

import msgpack
import pytest
import zmq
from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]


def binary(name):
    build = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
    path = (build if build.is_absolute() else ROOT / build) / "bin" / name
    assert path.exists(), f"{path} is missing: build the target {name}"
    return path


class Broker:
    def __init__(self, folder):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 100
        self.endpoint = f"ipc://{folder}/engines"
        self.socket.bind(self.endpoint)
        self.peer = None

    def close(self):
        self.socket.close()
        self.context.term()

    def say(self, kind, body, id=0):
        frame = msgpack.packb({"v": 1, "kind": kind, "id": id, "body": body})
        self.socket.send_multipart([self.peer, frame])

    def expect(self, kind):
        """Returns the next message of a kind. Answers hellos and heartbeats until then."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.socket.poll(PATIENCE_S * 1000):
            self.peer, frame = self.socket.recv_multipart()
            message = msgpack.unpackb(frame)
            if message["kind"] == "hello":
                self.say("welcome", {"broker": "b", "heartbeat_ms": 50}, message["id"])
            elif message["kind"] == "heartbeat":
                self.say("heartbeat_answer", {}, message["id"])
            if message["kind"] == kind:
                return message["body"]
        raise AssertionError(f"no {kind} came")

    def lease(self, number, job):
        self.say("leases", {"leases": [{"lease": number, "job": f"job-{number}", "attempt": 1,
                                        "submitted_us": 5, "body": job}]})


@pytest.fixture
def broker(tmp_path):
    b = Broker(tmp_path)
    yield b
    b.close()


@pytest.fixture
def engine(broker):
    started = []

    def start(*arguments, program="stub_engine", **environment):
        process = subprocess.Popen(
            [binary(program), "--broker", broker.endpoint, *arguments],
            env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait(process):
    return process.wait(timeout=PATIENCE_S)


JOB = {"model": "*", "custom_id": "mine", "prompt": "hello", "n": 2, "max_tokens": 5}


def test_a_stranger_can_lend_it_a_job(broker, engine):
    process = engine("--model-name", "m", "--name", "worker 1")
    hello = broker.expect("hello")
    assert (hello["role"], hello["name"], hello["model"]) == ("engine", "worker 1", "m")
    broker.lease(9, JOB)
    [end] = broker.expect("ends")["ends"]
    assert end["lease"] == 9 and end["state"] == "completed"
    assert [c["text"] for c in end["result"]["choices"]] == ["a stub's answer"] * 2
    broker.say("committed", {"committed": [9]})
    process.send_signal(signal.SIGTERM)
    broker.expect("goodbye")
    assert wait(process) == 0


def test_sigterm_finishes_what_runs(broker, engine):
    process = engine("--step-ms", "300")
    broker.expect("heartbeat")
    broker.lease(1, JOB)
    while 1 not in broker.expect("heartbeat")["leases"]:
        pass
    process.send_signal(signal.SIGTERM)
    [end] = broker.expect("ends")["ends"]
    assert end["lease"] == 1
    broker.say("committed", {"committed": [1]})
    broker.expect("goodbye")
    assert wait(process) == 0


def test_drain_timeout_hands_back_what_does_not_end(broker, engine):
    process = engine("--job-steps", "1000000", "--step-ms", "20", "--drain-timeout", "0")
    broker.expect("heartbeat")
    broker.lease(1, JOB)
    while 1 not in broker.expect("heartbeat")["leases"]:
        pass
    process.send_signal(signal.SIGTERM)
    assert broker.expect("release")["leases"] == [1]
    broker.expect("goodbye")
    assert wait(process) == 0


def test_ctrl_c_says_so_by_its_exit_code(broker, engine):
    process = engine()
    broker.expect("hello")
    process.send_signal(signal.SIGINT)
    assert wait(process) == 130


def test_refused_for_good(broker, engine):
    process = engine()
    assert broker.socket.poll(PATIENCE_S * 1000)
    broker.peer, frame = broker.socket.recv_multipart()
    error = {"code": "unsupported_version", "message": "this broker speaks 9", "hint": "update"}
    broker.say("refused", {"error": error}, msgpack.unpackb(frame)["id"])
    assert wait(process) == 3
    words = process.stderr.read()
    assert "unsupported_version: this broker speaks 9" in words and "update" in words


def test_the_abort_hook(broker, engine):
    process = engine(MILLRACE_TEST_ABORT_ON="hell")
    broker.expect("heartbeat")
    broker.lease(1, {**JOB, "prompt": "a harmless one"})
    broker.expect("ends")
    broker.lease(2, JOB)
    assert wait(process) == -signal.SIGABRT


def test_the_hang_hook_keeps_beating_without_progress(broker, engine):
    process = engine(MILLRACE_TEST_HANG_ON="mine")
    broker.expect("heartbeat")
    broker.lease(1, JOB)
    while 1 not in broker.expect("heartbeat")["leases"]:
        pass
    beats = [broker.expect("heartbeat") for _ in range(3)]
    assert all(1 in beat["leases"] for beat in beats)
    assert len({beat.get("steps", 0) for beat in beats}) == 1
    assert process.poll() is None


def test_a_step_that_never_ends_ends_the_process_and_not_its_leases(broker, engine):
    """The real engine. It hands waiting jobs back at once; running ones stay leased."""
    model = os.environ.get("MILLRACE_MODEL") or subprocess.run(
        [ROOT / "ops" / "model"], check=True, capture_output=True, text=True).stdout.split("\n")[-2]
    process = engine("--model", model, "--kv-memory", "32MiB", "--step-limit", "1",
                     program="millrace-engine", MILLRACE_TEST_HANG_ON="mine")
    broker.expect("heartbeat")
    broker.lease(1, JOB)
    while 1 not in broker.expect("heartbeat")["leases"]:
        pass
    assert wait(process) == 1
    words = process.stderr.read()
    assert "has not ended a step for 1 s" in words and "--step-limit" in words
    while broker.socket.poll(100):
        broker.peer, frame = broker.socket.recv_multipart()
        assert msgpack.unpackb(frame)["kind"] == "heartbeat"  # no goodbye, no release


def test_it_dies_with_its_parent(broker, tmp_path):
    parent = subprocess.Popen(
        [sys.executable, "-c",
         "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True);"
         " p.wait()", binary("stub_engine"), "--broker", broker.endpoint, "--die-with-parent"],
        stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    broker.expect("heartbeat")
    handle = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    poller = zmq.Poller()
    poller.register(handle, zmq.POLLIN)  # readable when the process has ended
    assert poller.poll(PATIENCE_S * 1000), "the child lives on"
    os.close(handle)


@pytest.mark.parametrize("arguments, exit_code, words", [
    (["--nonsense"], 2, "nonsense"),
    (["--broker"], 2, "broker"),
    (["--log-level", "loud"], 2, "loud"),
    (["--broker", "nowhere"], 2, "nowhere"),
])
def test_wrong_command_lines(arguments, exit_code, words):
    ended = subprocess.run([binary("stub_engine"), *arguments], capture_output=True, text=True,
                           timeout=PATIENCE_S)
    assert ended.returncode == exit_code, ended.stderr
    assert words in ended.stderr
