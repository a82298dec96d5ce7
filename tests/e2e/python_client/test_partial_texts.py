"""Texts of running jobs: they come, also after a restart of the broker, and their end is told."""
import threading

import millrace
import pytest
from client_place import keys, until
from millrace import errors

# An engine tells nothing of a job that begins and ends while it sends nothing.
STEPS = ("--text", "one two three four", "--job-steps", "4", "--step-ms", "50")


def test_a_partial_has_its_tokens():
    assert millrace.Partial({"job": "a", "tokens": b"\1\0\0\0"}).tokens.tolist() == [1]


class Reading:
    """Reads the partials of a stream in a thread until they end, or the first of one job came."""

    def __init__(self, client, stream, last=None):
        self.partials, self.error = [], None
        watchers = client._link.watchers._by_stream
        before = len(watchers.get(stream, ()))
        self.thread = threading.Thread(target=self._read, args=(client, stream, last), daemon=True)
        self.thread.start()
        until(lambda: self.error or len(watchers.get(stream, ())) > before, "watch")

    def _read(self, client, stream, last):
        try:
            for partial in client.partials(stream):
                self.partials.append(partial)
                if partial.job == last:
                    return
        except errors.MillraceError as error:
            self.error = error

    def text(self, job):
        return "".join(one.text for one in self.partials if one.job == job)


def test_they_come_also_after_a_restart(bare_place):
    bare_place.start_broker()
    bare_place.start_engine(*STEPS)
    with millrace.Client() as client:
        reading = Reading(client, "s")
        assert client.generate("x").ok  # of a stream that nobody watches
        for job in ("a", "b"):
            client.submit("x", id=job, stream="s", partials=True)
            until(lambda: reading.text(job) == "one two three four", "text")
            bare_place.kill_broker()
            bare_place.start_broker()
        assert {one.job for one in reading.partials} == {"a", "b"} and reading.error is None


def test_two_may_read_one_stream_and_the_end_of_one_is_not_that_of_the_other(bare_place):
    bare_place.start_broker()
    bare_place.start_engine(*STEPS)
    with millrace.Client() as client:
        long, short = Reading(client, "s"), Reading(client, "s", last="a")
        client.submit("x", id="a", stream="s", partials=True)
        short.thread.join()
        until(lambda: long.text("a") == "one two three four", "text")
        client.submit("x", id="b", stream="s", partials=True)
        until(lambda: long.text("b") == "one two three four", "text")
        assert {one.job for one in short.partials} == {"a"} and short.error is None


def test_the_end_of_the_client_ends_them(place):
    client = millrace.Client()
    reading = Reading(client, "s")
    client.close()
    until(lambda: reading.error, "end of the partials")
    assert isinstance(reading.error, errors.UsageError) and "closed" in str(reading.error)
    with pytest.raises(errors.UsageError, match="closed"):
        next(client.partials("s"))


def test_a_key_that_may_not_read_is_told(bare_place):
    folder, mine = (bare_place.folder / name for name in ("keys", "me.key"))
    keys("init", folder)
    keys("new", mine, "--keys", folder, "--name", "me", "--roles", "submit")
    bare_place.start_broker("--keys", folder)
    with millrace.Client(key=mine) as client:
        with pytest.raises(errors.UnauthorizedError):
            next(client.partials("s"))


def test_a_key_that_may_read_no_longer_is_told(bare_place):
    """The broker says goodbye, and refuses the question in the session after it."""
    folder, mine = (bare_place.folder / name for name in ("keys", "me.key"))
    keys("init", folder)
    keys("new", mine, "--keys", folder, "--name", "me", "--roles", "submit,read")
    bare_place.start_broker("--keys", folder)
    with millrace.Client(key=mine) as client:
        reading = Reading(client, "s")
        client.call("status_request")  # the question before it has its answer
        public = next(word for line in mine.read_text().splitlines()
                      if line.startswith("public") for word in line.split()[1:])
        keys("allow", "me", "--public", public, "--keys", folder, "--roles", "submit")
        until(lambda: reading.error, "end of the partials")
        assert isinstance(reading.error, errors.UnauthorizedError)
        assert client.submit("x").ok
