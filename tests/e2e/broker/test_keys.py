"""Keys on real sockets: who is admitted, what the broker counts and logs, and when it ends."""
import os
import socket as sockets
import struct
import subprocess
import threading
import time

import pytest
import zmq
from keyed import Key, KeyedBroker, Keys, client, handshake
from patience import PATIENCE_S
from wire import BUILD, PROGRAM, ROOT, Peer, job

ENDPOINTS = {"clients": zmq.DEALER, "engines": zmq.DEALER, "doorbell": zmq.SUB, "push": zmq.PUSH}
MANUAL = ("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")


@pytest.fixture
def broker(keyed_broker):
    return keyed_broker


def refusals(broker):
    return [line for line in broker.told().splitlines() if "a connection was refused" in line]


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_key_that_is_not_allowed_is_refused_counted_and_logged_once(name, keys, broker, context):
    stranger = keys.stranger()
    for _ in range(5):
        assert handshake(context, broker.endpoint(name), stranger, ENDPOINTS[name]) == "key refused"
    assert broker.end()["refused_connections"] == 5
    assert len(refusals(broker)) == 1 and stranger.public in refusals(broker)[0]


@pytest.mark.parametrize("name", ENDPOINTS)
def test_a_peer_without_a_key_is_refused_counted_and_logged(name, keys, broker, context):
    for _ in range(5):
        # Whoever notices first ends it: the peer says protocol, the broker closes the connection.
        assert handshake(context, broker.endpoint(name), None, ENDPOINTS[name]) in (
            "protocol", "no detail")
    # The peer may notice before the broker. A later connection is refused after the broker has seen
    # the earlier ones: one thread serves them in turn.
    stranger = keys.stranger()
    assert handshake(context, broker.endpoint(name), stranger, ENDPOINTS[name]) == "key refused"
    assert broker.end()["refused_connections"] == 6
    told = [line for line in refusals(broker) if stranger.public not in line]
    assert 1 <= len(told) <= 2  # the broker sees a mismatch, or that the peer left


def test_a_peer_that_expects_another_broker_is_refused(keys, broker, context, tmp_path):
    key = keys.one
    (tmp_path / "other").mkdir()
    wrong = Key(key.path, broker=Keys(tmp_path / "other").own.public)
    assert handshake(context, broker.endpoint("clients"), wrong) != "admitted"
    assert handshake(context, broker.endpoint("clients"), key) == "admitted"
    assert broker.end()["refused_connections"] >= 1
    assert len(refusals(broker)) == 1


def test_a_revoked_key_loses_its_session_and_is_not_admitted_again(keys, broker, context):
    key, other = keys.one, keys.two
    one, two = client(context, broker, key), client(context, broker, other)
    one.ask("submit", jobs=[job("a")])
    keys.revoke("one")
    assert "revoked" in one.wait("goodbye")["reason"]
    for kind, body in (("fetch", {"stream": "results"}), ("hello", one.hello),
                       ("submit", {"jobs": [job("b")]})):
        answer, said = one.ask(kind, **body)
        assert (answer, said["error"]["code"]) == ("refused", "unauthorized"), kind
    assert handshake(context, broker.endpoint("clients"), key) == "key refused"
    assert two.ask("status_request")[1]["counts"]["queued"] == 1
    counts = broker.end()
    assert counts["unauthorized"] == 3 and counts["refused_connections"] >= 1
    assert broker.told().count("a key that was revoked was refused") == 1


def test_a_key_that_is_made_while_the_broker_runs_is_let_in_at_once(keys, broker, context):
    for name, kind in ENDPOINTS.items():
        key = keys.new(f"late-{name}", "default", "work" if name == "engines" else "submit,read")
        assert handshake(context, broker.endpoint(name), key, kind) == "admitted", name
    for number in range(5):
        peer = client(context, broker, keys.new(f"client-{number}", "default", "submit,read"))
        peer.ask("submit", jobs=[job(f"late-{number}")])
    assert peer.ask("status_request")[1]["counts"]["queued"] == 5
    assert broker.end()["refused_connections"] == 0
    assert not refusals(broker)


def test_the_broker_ends_when_nobody_checks_keys_any_more(keys, tmp_path, context):
    library = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "tests" / "libzap_dies.so"
    assert library.exists(), "build the target zap_dies"
    flag = tmp_path / "zap-dies"
    key = keys.one
    broker = KeyedBroker(tmp_path, keys, environment={
        **os.environ, "LD_PRELOAD": str(library), "ZAP_DIES": str(flag)})
    try:
        client(context, broker, key)
        flag.touch()
        assert handshake(context, broker.endpoint("clients"), key) != "admitted"
        assert broker.process.wait(PATIENCE_S) == 1
        assert "the thread that checks keys has ended" in broker.told()
    finally:
        broker.close()


@pytest.mark.parametrize("name, role, right", [("clients", "engine", "engine endpoint"),
                                               ("engines", "client", "client endpoint")])
def test_a_peer_at_the_wrong_endpoint_is_told_the_right_one(name, role, right, keys, tmp_path,
                                                            context):
    key = {"engine": keys.new("gpu", "*", "work"), "client": keys.one}[role]
    broker = KeyedBroker(tmp_path, keys)
    try:
        peer = Peer(context, broker.endpoint(name), key, role=role, name="lost", instance="i")
        kind, body = peer.ask("hello", **peer.hello)
        assert (kind, body["error"]["code"]) == ("refused", "unexpected_message")
        assert right in body["error"]["hint"]
        # One that says it is what the endpoint is for lacks the role.
        kind, body = peer.ask("hello", **{**peer.hello, "role": "client" if role == "engine" else
                                          "engine"})
        assert (kind, body["error"]["code"]) == ("refused", "unauthorized")
        needs = "one of the roles submit, read, admin, operate" if name == "clients" else \
            "the role work"
        assert body["error"]["message"].endswith("this message needs " + needs)
    finally:
        broker.close()


class Recorder(threading.Thread):
    """A proxy for one connection that keeps what the client sends."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.target = ("127.0.0.1", int(endpoint.rsplit(":", 1)[1]))
        self.listener = sockets.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.sent = b""
        self.start()

    def run(self):
        near, _ = self.listener.accept()
        self.far = sockets.create_connection(self.target)
        back = threading.Thread(target=self.copy, args=(self.far, near, False), daemon=True)
        back.start()
        self.copy(near, self.far, True)

    def copy(self, source, to, keep):
        try:
            while data := source.recv(65536):
                if keep:
                    self.sent += data
                to.sendall(data)
        except OSError:
            pass


def closed_by_broker(connection):
    connection.settimeout(PATIENCE_S)
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def test_recorded_bytes_of_a_session_are_worth_nothing(keys, broker, context):
    key = keys.one
    recorder = Recorder(broker.endpoint("clients"))
    peer = Peer(context, recorder.endpoint, key, role="client", name="recorded")
    peer.join()
    assert peer.ask("submit", jobs=[job("a")])[0] == "submitted"
    again = sockets.create_connection(recorder.target)
    try:
        again.sendall(recorder.sent)
    except ConnectionError:
        pass
    assert closed_by_broker(again)
    # The last frame once more, on its own connection: the broker ends the connection.
    before = len(recorder.sent)
    peer.ask("cancel", jobs=["a"])
    recorder.far.sendall(recorder.sent[before:])
    fresh = client(context, broker, key)
    counts = fresh.ask("status_request", job="a")[1]["counts"]
    assert counts["cancelled"] == 1 and sum(counts.values()) == 1
    assert broker.end()["refused_connections"] >= 1
    assert len(refusals(broker)) >= 1


def test_a_flood_of_bad_handshakes_keeps_nobody_waiting_for_ever(keys, broker, context):
    key = keys.one
    stranger = keys.stranger()
    stop, tries = threading.Event(), []

    def flood():
        mine = zmq.Context()
        while not stop.is_set():
            tries.append(handshake(mine, broker.endpoint("clients"), stranger))
        mine.term()

    attackers = [threading.Thread(target=flood) for _ in range(8)]
    for attacker in attackers:
        attacker.start()
    peer = client(context, broker, key)
    done = 0
    while len(tries) < 300:  # as long as the flood goes on, old and new sessions are served
        assert peer.ask("submit", jobs=[job(f"j{done}")])[0] == "submitted"
        client(context, broker, key).socket.close(0)
        done += 1
    stop.set()
    for attacker in attackers:
        attacker.join(PATIENCE_S)
    assert set(tries) == {"key refused"} and done > 0
    assert peer.ask("status_request")[1]["counts"]["queued"] == done
    assert broker.end()["refused_connections"] >= len(tries)
    assert len(refusals(broker)) == 1


def test_no_secret_is_in_the_log_or_in_an_answer(keys, tmp_path, context):
    key, engine = keys.one, keys.new("engine", "*", "work")
    broker = KeyedBroker(tmp_path, keys)
    try:
        client(context, broker, key)
        worker = Peer(context, broker.endpoint("engines"), engine, role="engine", name="e",
                      instance="i", model="m")
        worker.join()
        handshake(context, broker.endpoint("clients"), keys.stranger())
        keys.revoke("one")
        broker.end()
        shown = broker.told() + keys.run("ls", "--keys", keys.folder) + \
            keys.run("ls", "--keys", keys.folder, "--json")
        for secret in (keys.own.secret, key.secret, engine.secret):
            assert secret not in shown and secret[:12] not in shown
    finally:
        broker.close()


def refused_start(tmp_path, *options, environment=None):
    done = subprocess.run([PROGRAM, "--ledger", tmp_path / "l", "--listen", "tcp://127.0.0.1:*",
                           "--listen-engines", "tcp://127.0.0.1:*", "--listen-doorbell", "",
                           *options], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, env=environment)
    assert done.returncode in (2, 3) and "ready" not in done.stdout
    return done.stderr


def test_the_broker_refuses_to_start_with_unusable_keys(keys, tmp_path):
    assert "not_found" in refused_start(tmp_path, "--keys", tmp_path / "none") or \
        "cannot open" in refused_start(tmp_path, "--keys", tmp_path / "none")
    own = keys.folder / "broker.key"
    own.chmod(0o640)
    assert "others may read" in refused_start(tmp_path, "--keys", keys.folder)
    own.chmod(0o600)
    text = own.read_text()
    other = Key(tmp_path / "x.key") if (tmp_path / "x.key").exists() else keys.stranger("x")
    own.write_text(text.replace(keys.own.secret, other.secret))
    assert "do not belong together" in refused_start(tmp_path, "--keys", keys.folder)
    own.write_text(f"public {MANUAL[0]}\nsecret {MANUAL[1]}\n")
    said = refused_start(tmp_path, "--keys", keys.folder)
    assert "manual" in said and MANUAL[1] not in said
    own.write_text("public nonsense\n")
    assert "line 1" in refused_start(tmp_path, "--keys", keys.folder)
    own.write_text(text)
    allowed = keys.folder / "allowed"
    allowed.chmod(0o666)
    assert "others may write" in refused_start(tmp_path, "--keys", keys.folder)
    allowed.chmod(0o600)
    for line, said in ((f"a t read {MANUAL[0]}", "manual"), ("a t read", "3 words"),
                       (f"a t fly {other.public}", "no role"),
                       (f"a * read {other.public}", "every"),
                       (f"a t read {other.public}\nb t read {other.public}", "line 2")):
        allowed.write_text(line + "\n")
        assert said in refused_start(tmp_path, "--keys", keys.folder), line


@pytest.mark.parametrize("whom, admitted", [("any_key", "a key that is not allowed"),
                                            ("no_key", "a peer without a key")])
def test_the_broker_refuses_to_start_where_zeromq_admits_strangers(whom, admitted, keys, tmp_path):
    library = (BUILD if BUILD.is_absolute() else ROOT / BUILD) / "tests" / \
        "liblets_strangers_in.so"
    assert library.exists(), "build the target lets_strangers_in"
    said = refused_start(tmp_path, "--keys", keys.folder, environment={
        **os.environ, "LD_PRELOAD": str(library), "LETS_IN": whom})
    assert "unauthorized: the start-up test: tcp://127.0.0.1:" in said
    assert f"admitted {admitted}" in said


def test_a_broken_list_leaves_the_one_before_in_force(keys, broker, context):
    key = keys.one
    allowed = keys.folder / "allowed"
    good = allowed.read_text()
    allowed.write_text("nonsense\n")
    while "cannot be used" not in broker.told():
        pass
    peer = client(context, broker, key)
    allowed.write_text(good.replace("submit,read", "read"))
    assert "changed" in peer.wait("goodbye")["reason"]


def test_with_keys_the_broker_listens_to_other_machines(keys, tmp_path):
    process = subprocess.Popen(
        [PROGRAM, "--ledger", tmp_path / "l", "--keys", keys.folder, "--listen", "tcp://0.0.0.0:*",
         "--listen-engines", "tcp://0.0.0.0:*", "--listen-doorbell", "tcp://0.0.0.0:*"],
        stdout=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline().split()
        assert first[0] == "clients" and first[1].startswith("tcp://0.0.0.0:")
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_a_connection_that_the_peer_resets_is_not_blamed_on_its_key(keys, broker, context):
    host, port = broker.endpoint("clients").removeprefix("tcp://").split(":")
    peer = sockets.create_connection((host, int(port)))
    assert peer.recv(10)  # the broker's part of the greeting has begun
    peer.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    until = time.monotonic() + PATIENCE_S
    while not refusals(broker):
        assert time.monotonic() < until, broker.told()
    assert len(refusals(broker)) == 1
    assert "the peer reset the connection" in refusals(broker)[0] and "key" not in \
        refusals(broker)[0]
