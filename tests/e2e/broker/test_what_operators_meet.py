"""What somebody who runs a broker meets first: wrong places, hostile names, a disk that is full."""
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import msgpack
import pytest
import zmq

from patience import PATIENCE_S
from test_full_disk import MIB, disk, fill  # noqa: F401  (disk is a fixture)
from wire import PROGRAM, Broker, Peer, job

MILLRACE = PROGRAM.parent / "millrace"
NOBODY = 65_534
ROOT = pathlib.Path(__file__).resolve().parents[3]


def call(*words, **settings):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False, **settings)


def wait_until(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, condition
        time.sleep(0.05)


@pytest.mark.parametrize("option", ["--listen", "--listen-engines", "--listen-doorbell",
                                    "--listen-push"])
@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:99999", "tcp://127.0.0.1:-1",
                                      "tcp://127.0.0.1:6x", "tcp://127.0.0.1:"])
def test_a_port_that_is_none_is_refused(tmp_path, option, endpoint):
    others = {"--listen": "c", "--listen-engines": "e", "--listen-doorbell": "d"}
    others.pop(option, None)
    places = [x for name, file in others.items() for x in (name, f"ipc://{tmp_path}/{file}")]
    done = call(PROGRAM, "--ledger", "memory:", option, endpoint, *places)
    assert done.returncode == 2 and done.stdout == ""
    assert endpoint in done.stderr and "0 to 65535" in done.stderr


def test_a_client_refuses_such_a_port_too():
    done = call(MILLRACE, "status", "--broker", "tcp://127.0.0.1:99999")
    assert done.returncode == 2 and "1 to 65535" in done.stderr


def test_an_address_that_is_not_up_is_no_wrong_use(tmp_path, keys):
    """Its unit starts a broker again unless it was used wrongly, and the network comes up late."""
    done = call(PROGRAM, "--ledger", "memory:", "--keys", keys.folder, "--listen",
                "tcp://192.0.2.1:5570", "--listen-engines", "tcp://127.0.0.1:*",
                "--listen-doorbell", "")  # of no machine (RFC 5737)
    assert done.returncode == 3, done.stderr
    assert "tcp://192.0.2.1:5570: Cannot assign requested address" in done.stderr


def open_to_others(folder):
    for parent in folder.parents:  # pytest's folders, which are closed to others
        if parent.name.startswith(("pytest-", "popen-")) and parent.stat().st_uid == 0:
            parent.chmod(0o755)
    folder.chmod(0o755)


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files for another user")
def test_a_service_can_read_the_keys_after_what_its_settings_say(tmp_path):
    settings = (ROOT / "ops/systemd/broker.toml").read_text(encoding="utf-8")
    keys, user = tmp_path / "keys", {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    commands = re.findall(r"`([^`]* /etc/millrace/keys)`", settings)
    assert len(commands) == 2
    open_to_others(tmp_path)
    start = [PROGRAM, "--ledger", "memory:", "--keys", keys, "--listen", "tcp://127.0.0.1:*",
             "--listen-engines", "tcp://127.0.0.1:*", "--listen-doorbell", ""]
    for command in commands:
        words = command.replace("/etc/millrace/keys", str(keys)).replace("millrace:", "nobody:")
        before = call(*start, **user)
        assert before.returncode != 0 and str(keys) in before.stderr
        subprocess.run(words.replace("millrace keys", f"{MILLRACE} keys").split(), check=True)
    broker = subprocess.Popen(start, stdout=subprocess.PIPE, text=True, **user)
    assert "ready\n" in broker.stdout
    broker.terminate()
    assert broker.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_ledger_that_cannot_be_written_is_named_with_what_to_do(tmp_path, what):
    folder = tmp_path / "ledger"
    broker = Broker(tmp_path)
    broker.close()
    place = folder if what == "folder" else folder / "ledger.sqlite"
    place.chmod(0o500 if what == "folder" else 0o400)
    user = {}
    if os.getuid() == 0:  # modes do not bind root
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
        open_to_others(tmp_path)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    done = call(PROGRAM, "--ledger", folder, "--listen", "tcp://127.0.0.1:*", "--listen-engines",
                "tcp://127.0.0.1:*", "--listen-doorbell", "", **user)
    assert done.returncode == 3
    assert str(place) in done.stderr and "Permission denied" in done.stderr
    assert "PRAGMA" not in done.stderr and "(" in done.stderr


@pytest.mark.parametrize("control", ["\x1b", "\n", "\x7f", "\u009b"])
def test_names_with_control_characters_are_refused(broker, client, context, control):
    name = f"a{control}[2Jb"
    engine = Peer(context, broker.endpoint("engines"), role="engine", name=name,
                  instance="i", model="m")
    for kind, answer in (engine.ask("hello", **engine.hello),
                         client.ask("keep", stream=name, set={"bytes": 5}),
                         client.ask("status_request", job=name)):
        assert (kind, answer["error"]["code"]) == ("refused", "invalid_value"), answer
    for field in ("id", "custom_id", "stream", "batch", "model"):
        answer = client.ask("submit", jobs=[{**job("x"), field: name}])[1]["answers"][0]
        assert answer["error"]["code"] == "invalid_value", field


def test_what_a_foreign_broker_says_cannot_command_the_terminal(tmp_path, context):
    """A broker of another make may check no names."""
    evil = "n\x1b]0;owned\x07\n\u009b31m\x7f"
    answers = {
        "status_request": ("status_answer", {
            "counts": {}, "job_stream": evil, "job_waits": evil, "engines": [
                {"name": evil, "engine": {"model": evil, "fingerprint": evil, "label": evil}}]}),
        "streams_request": ("streams_answer", {"epoch": "e", "streams": [
            {"stream": evil, "cursors": 1, "set": {}, "applied": {}}]}),
        "cursors_request": ("cursors_answer", {"stream": evil, "cursors": [{"cursor": evil}]}),
        "trim": ("refused", {"error": {"code": "not_found", "message": evil, "hint": evil}}),
    }
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    socket.bind(f"ipc://{tmp_path}/s")
    done = threading.Event()

    def serve():
        while not done.is_set():
            if not socket.poll(50):
                continue
            route, frame = socket.recv_multipart()
            asked = msgpack.unpackb(frame)
            kind, body = answers.get(asked["kind"], ("welcome", {"broker": "b", "software": evil}))
            if asked["body"].get("job"):
                body = {**body, "state": "queued"}
            socket.send_multipart([route, msgpack.packb(
                {"v": 1, "kind": kind, "id": asked["id"], "body": body})])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for words in (("status",), ("status", "--job", "a"), ("streams", "ls"),
                      ("streams", "trim", "s", "--below", "1"), ("cursors", "ls")):
            told = call(MILLRACE, *words, "--broker", f"ipc://{tmp_path}/s")
            shown = told.stdout + told.stderr
            assert r"\x1b]0;owned\x07" in shown, (words, shown)
            assert all(c == "\n" or (c >= " " and not "\x7f" <= c < "\xa0") for c in shown), shown
    finally:
        done.set()
        thread.join()
        socket.close()


def status(broker):
    return call(MILLRACE, "status", "--broker", broker.endpoint("clients")).stdout


def test_status_tells_of_an_engine_that_is_silent(tmp_path, context):
    broker = Broker(tmp_path)
    engine = Peer(context, broker.endpoint("engines"), role="engine", name="gpu", instance="i",
                  model="m")
    engine.join()
    assert "silent" not in status(broker)
    wait_until(lambda: "tokens/s  silent for 3 s  " in status(broker))
    engine.say("ready", credit=1)
    wait_until(lambda: "silent" not in status(broker))
    broker.close()


@pytest.mark.parametrize("engines", [False, True])
def test_a_drain_ends_the_broker_and_on_request_its_engines(tmp_path, engines):
    broker = Broker(tmp_path)
    stub = subprocess.Popen([PROGRAM.parent / "stub_engine", "--model-name", "stub", "--broker",
                             broker.endpoint("engines")], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "engine " in status(broker))
        done = call(MILLRACE, "drain", *["--engines"] * engines, "--broker",
                    broker.endpoint("clients"))
        assert done.returncode == 0 and "trying again" not in done.stderr, done.stderr
        assert broker.process.wait(PATIENCE_S) == 0
        if engines:
            assert stub.wait(PATIENCE_S) == 0
        else:
            broker.start()
            wait_until(lambda: "engine " in status(broker))
    finally:
        stub.kill()
        stub.wait()
    broker.close()


def test_a_full_disk_is_logged_once_each_time(disk, tmp_path, context):  # noqa: F811
    broker = Broker(tmp_path)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    log = tmp_path / "broker.log"
    for times in (1, 2):
        disk.resize(disk.used() + 64 * MIB)
        _, refusal = fill(client)
        assert refusal["code"] == "disk_full" and refusal["retry_ms"] > 0
        for i in range(10):
            client.ask("submit", jobs=[job(f"more-{times}-{i}", prompt="x" * MIB)])
        assert log.read_text().count("new jobs are refused: disk_full") == times
        assert "new jobs are refused: disk_full" in status(broker)
        disk.resize(1024 * MIB)
        wait_until(lambda: not client.ask(
            "submit", jobs=[job(f"after-{times}")])[1]["answers"][0].get("error"))
        assert log.read_text().count("new jobs are taken again") == times
        assert "refused" not in status(broker)
    broker.close()


def test_submit_to_a_full_disk_ends_after_its_timeout_and_says_why(disk, tmp_path,  # noqa: F811
                                                                   context):
    broker = Broker(tmp_path)
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    fill(client)
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text(json.dumps({"prompt": "x" * MIB, "model": "*"}) + "\n")
    for wait in ((), ("--wait",)):
        done = call(MILLRACE, "submit", jobs, "--timeout", "1", *wait, "--broker",
                    broker.endpoint("clients"))
        assert done.returncode == 3
        assert "asked again: disk_full" in done.stderr
        assert "millrace: disk_full: the broker had no room for 1 s (--timeout)" in done.stderr
    broker.close()


def test_the_log_names_an_engine_by_its_id_always(tmp_path, context):
    broker = Broker(tmp_path, "--lease-ms", 1000)
    engine = Peer(context, broker.endpoint("engines"), role="engine", name="gpu", instance="i7",
                  model="m")
    assert engine.join()["hang_ms"] == 60_000
    client = Peer(context, broker.endpoint("clients"), role="client", name="c")
    client.join()
    client.ask("submit", jobs=[job("a")])
    engine.say("ready", credit=1)
    engine.wait("leases")
    broker.kill()
    broker.start()
    log = tmp_path / "broker.log"
    wait_until(lambda: "did not come back" in log.read_text())
    told = [line for line in log.read_text().splitlines() if "engine " in line]
    assert any("engine i7 (gpu) joined" in line for line in told)
    assert any("engine i7 did not come back" in line for line in told)
    assert not [line for line in told if "engine gpu" in line]
    broker.close()
