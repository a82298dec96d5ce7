"""Programs tell the service manager when they serve and when they end, as systemd wants it of a
unit of the type notify."""
import os
import signal
import socket
import subprocess
import tempfile

import pytest
from patience import PATIENCE_S
from staged import BIN, model_path


@pytest.fixture
def manager():
    """The socket of a service manager, and an environment that names it."""
    with tempfile.TemporaryDirectory(prefix="mr-") as folder:  # pytest's are too long for sockets
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.bind(f"{folder}/notify")
            end.settimeout(PATIENCE_S)
            yield end, {**os.environ, "XDG_RUNTIME_DIR": folder,
                        "NOTIFY_SOCKET": f"{folder}/notify"}


def silent(end):
    end.setblocking(False)
    try:
        return end.recv(100)
    except BlockingIOError:
        end.settimeout(PATIENCE_S)
        return None


def test_the_broker_tells_that_it_is_ready_and_that_it_stops(manager, tmp_path):
    end, env = manager
    broker = subprocess.Popen([BIN / "millrace-broker", "--ledger", tmp_path / "ledger"], env=env,
                              stdout=subprocess.PIPE, text=True)
    try:
        assert end.recv(100) == b"READY=1"
        assert os.path.exists(f"{env['XDG_RUNTIME_DIR']}/millrace/clients")
        assert silent(end) is None
        broker.send_signal(signal.SIGTERM)
        assert end.recv(100) == b"STOPPING=1"
        assert broker.wait(PATIENCE_S) == 0
    finally:
        broker.kill()
        broker.communicate()


def test_a_broker_that_cannot_start_is_not_ready(manager, tmp_path):
    end, env = manager
    (tmp_path / "file").touch()
    done = subprocess.run([BIN / "millrace-broker", "--ledger", tmp_path / "file"], env=env,
                          capture_output=True)
    assert done.returncode in (2, 3) and silent(end) is None


def test_the_engine_is_ready_once_it_has_its_model(manager, tmp_path):
    end, env = manager
    log = tmp_path / "log"
    engine = subprocess.Popen([BIN / "millrace-engine", "--model", model_path()], env=env,
                              stderr=log.open("wb"))
    try:
        assert end.recv(100) == b"READY=1"
        assert "engine ready" in log.read_text()
    finally:
        engine.terminate()
        engine.wait(PATIENCE_S)


def test_an_abstract_name_is_a_socket_too(tmp_path):
    """systemd in a container may name an abstract socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end, \
            tempfile.TemporaryDirectory(prefix="mr-") as folder:
        name = f"millrace-test-{os.getpid()}"
        end.bind("\0" + name)
        end.settimeout(PATIENCE_S)
        broker = subprocess.Popen(
            [BIN / "millrace-broker", "--ledger", tmp_path / "ledger"], stdout=subprocess.DEVNULL,
            env={**os.environ, "XDG_RUNTIME_DIR": folder, "NOTIFY_SOCKET": "@" + name})
        try:
            assert end.recv(100) == b"READY=1"
        finally:
            broker.terminate()
            broker.wait(PATIENCE_S)


def test_a_manager_that_is_gone_stops_nothing(tmp_path):
    with tempfile.TemporaryDirectory(prefix="mr-") as folder:
        broker = subprocess.Popen(
            [BIN / "millrace-broker", "--ledger", tmp_path / "ledger"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": folder, "NOTIFY_SOCKET": f"{folder}/none"})
        try:
            assert "ready\n" in iter(broker.stdout.readline, "")
        finally:
            broker.terminate()
            told = broker.communicate(timeout=PATIENCE_S)[1]
        assert broker.returncode == 0 and "service manager cannot be told" in told
