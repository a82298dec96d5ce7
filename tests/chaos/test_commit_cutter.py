"""The proxy that cuts a connection in a COMMIT: the server's answer to one is not taken for one."""
import pathlib
import socket
import sys

import pytest
from patience import PATIENCE_S

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from commit_cutter import COMMIT, CommitCutter  # noqa: E402

REQUEST, ANSWER = b"query " + COMMIT, b"done " + COMMIT  # PostgreSQL's answer names the command


@pytest.fixture
def ends(tmp_path):
    """The proxy, and both ends of a connection through it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "server"))
        listener.listen()
        proxy = CommitCutter(tmp_path / "server")
        try:
            with socket.create_connection(("127.0.0.1", proxy.port)) as broker:
                server, _ = listener.accept()
                with server:
                    for one in (broker, server):
                        one.settimeout(PATIENCE_S)
                    yield proxy, broker, server
        finally:
            proxy.close()


def rest(end):
    """What comes until the connection has ended."""
    told = b""
    try:
        while data := end.recv(1024):
            told += data
    except ConnectionResetError:
        pass
    return told


def passes(source, data, into):
    source.sendall(data)
    assert into.recv(1024) == data


@pytest.mark.parametrize("where, reaches", [("request", b"query "), ("answer", REQUEST)])
def test_the_next_commit_of_a_broker_is_cut_and_no_answer_before(ends, where, reaches):
    proxy, broker, server = ends
    passes(broker, REQUEST, server)
    proxy.cut_commit(where)
    passes(server, ANSWER, broker)  # of the commit that was under way
    assert not proxy.was_cut.is_set()
    broker.sendall(REQUEST)
    assert proxy.was_cut.wait(PATIENCE_S) and proxy.commits_cut == 1
    assert rest(server) == reaches and rest(broker) == b""
