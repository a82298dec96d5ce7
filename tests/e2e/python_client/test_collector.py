"""Iterations and clients that the garbage collector ends, wherever it runs."""
import gc
import threading

import millrace
import pytest
from client_place import until
from millrace import _link, errors
from patience import PATIENCE_S


class Circle:
    """Lives until the collector comes."""

    def __init__(self, **held):
        self.itself = self
        self.__dict__.update(held)


@pytest.fixture
def collect_in_ask(monkeypatch):
    """The collector comes when `Link.ask` makes the next frame, as it may."""
    make, comes = _link.envelope, []

    def envelope(*words):
        if comes:
            comes.pop()
            gc.collect()
        return make(*words)

    monkeypatch.setattr(_link, "envelope", envelope)
    gc.disable()
    yield lambda: comes.append(True)
    gc.enable()


def in_a_thread(do):
    """What it gives; a call that never ends fails the test."""
    found = []
    thread = threading.Thread(target=lambda: found.append(do()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "it hangs, or has raised an error"
    return found[0]


def read_two(client):
    """An iteration that is left, amid results and with a cursor."""
    results = client.results("mine", cursor="c")
    assert [next(results).number for _ in range(2)] == [1, 2]
    return results


def store_five(client):
    client.submit_many([f"p{i}" for i in range(5)], stream="mine")
    assert len(list(client.results("mine", limit=5))) == 5


def cursor_of(client):
    return client.call("cursors_request", stream="mine")["cursors"][0]["number"]


def test_an_iteration_may_end_amid_a_question_of_its_thread(client, collect_in_ask):
    """It asked the broker to move its cursor, and waited for ever for a lock of its own thread."""
    store_five(client)

    def ask():
        Circle(results=read_two(client))
        collect_in_ask()
        return client.status()

    assert in_a_thread(ask).engines
    until(lambda: cursor_of(client) == 1, "move of the cursor")


def test_questions_that_are_asked_amid_others_have_numbers_of_their_own(client, collect_in_ask):
    store_five(client)

    def ask():
        Circle(results=read_two(client))
        collect_in_ask()
        asked = [client._link.ask("batches_request", {}) for _ in range(3)]
        return [one.result(PATIENCE_S)[0] for one in asked]

    assert in_a_thread(ask) == ["batches_answer"] * 3


def test_a_client_may_end_amid_a_question_of_its_session(client, collect_in_ask):
    """Its end waits for the thread of the session, which waited for the lock of the question."""

    def ask():
        circle = Circle(client=millrace.Client())
        link = circle.client._link
        assert circle.client.status().engines
        del circle
        collect_in_ask()
        with pytest.raises(errors.UsageError, match="the client is closed"):
            link.ask("status_request", {}).result(PATIENCE_S)
        return True

    assert in_a_thread(ask)


def test_an_iteration_that_ends_in_the_thread_of_the_session_waits_for_nothing(client):
    """It waited there for an answer that only this thread can take."""
    store_five(client)
    gc.disable()
    try:
        with millrace.Client(connect_timeout_s=PATIENCE_S) as patient:
            Circle(results=read_two(patient))
            patient._link.ask("status_request", {}).add_done_callback(lambda _: gc.collect())
            assert patient._link.ask("status_request", {}).result(PATIENCE_S / 2)
    finally:
        gc.enable()
    until(lambda: cursor_of(client) == 1, "move of the cursor")
