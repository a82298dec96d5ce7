"""What the open network sends to the face: it is refused, others are served, memory has a bound."""
import contextlib
import os
import resource
import socket
import subprocess
import sys
import time

import pytest
from http_place import HELLO

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"


def answer_of(place, *pieces):
    """What the server sends back until it closes or the first answer is whole."""
    with place.connect() as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                break
        return first_line(connection)


def first_line(connection):
    try:
        return connection.recv(65536).split(b"\r\n")[0]
    except ConnectionResetError:
        return b""


def is_served(place):
    return place.post("/v1/chat/completions", {"messages": HELLO})[0] == 200


def test_requests_that_are_too_large(place):
    assert b" 413 " in answer_of(place, CHAT + b"Content-Length: 99999999999\r\n\r\n")
    assert b" 431 " in answer_of(place, CHAT + b"X: " + b"x" * 100_000)
    assert b" 414 " in answer_of(place, b"GET /" + b"x" * 100_000)
    text = b'{"messages": [{"role": "user", "content": "%s"}]}' % (b"x" * 10_000_000)
    status, answer, _ = place.post("/v1/chat/completions", text)
    assert status == 413 and answer["error"]["code"] == "too_large"
    assert is_served(place)


def test_requests_that_are_nonsense(place):
    for head in (b"\x16\x03\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n",
                 CHAT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
                 CHAT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        line = answer_of(place, head)
        assert not line or int(line.split()[1]) >= 400, line
    assert is_served(place)


@pytest.mark.parametrize("path", ["/../etc/passwd", "/v1/models/../models", "/v1/%2e%2e/models",
                                  "/v1/models/%00", "/v1/models/%ff", "/v1/models/%zz"])
def test_tricks_with_paths(place, path):
    assert b" 400 " in answer_of(place, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def test_pages_of_others_are_refused(place):
    origin = {"Origin": "https://evil.example"}
    status, answer, headers = place.post("/v1/chat/completions", {"messages": HELLO}, **origin)
    assert status == 403 and answer["error"]["type"] == "permission_error"
    assert not [x for x in headers if x.lower().startswith("access-control")]
    assert place.get("/v1/models", Host="evil.example")[0] == 403
    own = {"Origin": place.url}
    assert place.post("/v1/chat/completions", {"messages": HELLO}, **own)[0] == 200
    assert not place.jobs("queued")


def test_pages_that_were_allowed(make_place):
    place = make_place("--http-allow-origin", "https://page.example, https://other.example/")
    place.start_engine()
    for origin in ("https://page.example", "https://other.example"):
        status, _, headers = place.post("/v1/chat/completions", {"messages": HELLO}, Origin=origin)
        assert status == 200 and headers["Access-Control-Allow-Origin"] == origin


IDLE = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
held = []
for i in range(count):
    one = socket.create_connection(("127.0.0.1", port))
    if i % 2: one.send(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: localhost\\r\\n")
    held.append(one)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.memory
def test_ten_thousand_idle_connections(place):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, most - 200)
    assert is_served(place)
    before = place.memory_mib()
    holder = subprocess.Popen(
        [sys.executable, "-c", "import resource as r; h = r.getrlimit(r.RLIMIT_NOFILE)[1]; "
         "r.setrlimit(r.RLIMIT_NOFILE, (h, h))\n" + IDLE, str(place.port), str(count)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "open\n"
    for _ in range(20):
        assert is_served(place)
    assert place.memory_mib() - before < 256
    holder.communicate("")
    assert holder.returncode == 0


def test_readers_that_stand_still(make_place):
    """A job is cancelled when the queue of its reader has been full for 30 s. A busy broker may
    lose a piece of a stream, and the stream then waits for its end, so that its queue never fills:
    so there are several readers, each a while after the one before."""
    place = make_place()
    place.start_engine("--text", "x" * 100_000, "--job-steps", "1000", "--step-ms", "200")
    body = b'{"stream": true, "n": 128, "messages": [{"role": "user", "content": "Hello"}]}'
    with contextlib.ExitStack() as readers:
        for _ in range(10):
            connection = readers.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", place.port))
            connection.sendall(CHAT + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            end = time.monotonic() + 60
            while time.monotonic() < end and not place.jobs("cancelled"):
                time.sleep(0.2)
            if place.jobs("cancelled"):
                return
    pytest.fail("no job was cancelled")


def test_addresses_beyond_the_machine_need_keys(tmp_path):
    from http_place import program
    done = subprocess.run([program("millrace-broker"), "--ledger", tmp_path / "ledger", "--listen",
                           f"ipc://{tmp_path}/c", "--http", "0.0.0.0:0"], text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 3 and "keys" in done.stderr
    assert not os.path.exists(tmp_path / "ledger")
    for options in (["--http", "nonsense"], ["--http", "127.0.0.1:0", "--http-cert", "c.pem"]):
        done = subprocess.run([program("millrace-broker"), "--ledger", tmp_path / "ledger",
                               *options], text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == 2, done.stderr
