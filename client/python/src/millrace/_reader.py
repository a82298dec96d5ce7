"""Reads one result stream without gaps or repetitions. It sends one fetch at a time, and asks for
the next entries while the user works on those that came."""
import time
from concurrent.futures import Future
from typing import Any, Dict, List, NamedTuple, Optional

from ._codes import InternalError, TrimmedError, UsageError
from ._error import MillraceError
from ._link import Answer, Link

POLL_S = 1.0  # between fetches when no doorbell rings
FETCH_BYTES = 1024 * 1024


class Position(NamedTuple):
    """A place in a stream: the last result that was read. Store `str(position)` together with your
    own output, and go on from it with `results(after=position)`.

    >>> import millrace
    >>> millrace.Position.parse("results 7f3a 12")
    Position(stream='results', epoch='7f3a', number=12)
    >>> str(millrace.Position("results", "7f3a", 12))
    'results 7f3a 12'
    """

    stream: str
    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream} {self.epoch} {self.number}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        try:
            stream, epoch, number = text.rsplit(" ", 2)
            return cls(stream, epoch, int(number))
        except ValueError:
            raise UsageError(f"{text!r} is no position", "give what str(position) wrote") from None


class Reader:
    def __init__(self, link: Link, stream: str, number: int = 1, epoch: str = "", cursor: str = "",
                 skip_trimmed: bool = False, max_entries: int = 1000) -> None:
        self._link = link
        self.stream, self.epoch, self.number = stream, epoch, number
        self._cursor, self._skip_trimmed = cursor, skip_trimmed
        self._max_entries = max_entries
        self._fetch: "Optional[Future[Answer]]" = None
        self._ring: "Optional[Future[None]]" = None
        self._listens = False
        self._due: float = 0.0
        self.caught_up = False
        self.high = 0

    def ask(self) -> None:
        """Sends the next fetch where one is due and none is under way."""
        if self._ring is not None and self._ring.done():
            self._ring.result()
            self._ring, self._due = None, 0.0
        if self._fetch is not None or time.monotonic() < self._due:
            return
        body: Dict[str, Any] = {"stream": self.stream, "from": self.number, "epoch": self.epoch,
                                "max_entries": self._max_entries, "max_bytes": FETCH_BYTES}
        if self.number == 0:
            body["cursor"] = self._cursor
        self._fetch = self._link.ask("fetch", body)

    def take(self) -> List[Dict[str, Any]]:
        """The entries that came, in order; then the next fetch is under way already."""
        if self._fetch is None or not self._fetch.done():
            return []
        future, self._fetch = self._fetch, None
        try:
            kind, body = future.result()
        except MillraceError as error:
            error.facts.setdefault("stream", self.stream)
            raise
        self.epoch = self.epoch or body["epoch"]
        if kind == "trimmed":
            self._trimmed(body["first"])
            return []
        entries: List[Dict[str, Any]] = body.get("entries", [])
        self.high = body.get("high", 0)
        self.caught_up = not entries
        if entries:
            self._check(entries)
            self.number = entries[-1]["number"] + 1
            self._due = 0.0
            self.ask()
        else:
            self.number = self.number or self.high + 1
            self._due = time.monotonic() + POLL_S
        return entries

    def _check(self, entries: List[Dict[str, Any]]) -> None:
        first = self.number or entries[0]["number"]
        if [entry["number"] for entry in entries] != list(range(first, first + len(entries))):
            raise InternalError(f"the stream {self.stream} has a gap at {first}",
                                "report it: a broker gives all numbers")

    def _trimmed(self, first: int) -> None:
        if not self._skip_trimmed:
            raise TrimmedError(
                f"the stream {self.stream} no longer keeps {self.number}: it begins at {first}",
                "go on from there with skip_trimmed=True", stream=self.stream, first=first)
        self.number = first

    def futures(self) -> "List[Future[Any]]":
        """What to wait for, at most POLL_S."""
        if self._fetch is not None:
            return [self._fetch]
        if self._ring is None:
            if not self._listens:
                self._link.listen(self.stream)
                self._listens = True
            self._ring = self._link.ring(self.stream, self.number - 1)
        return [self._ring]

    def close(self) -> None:
        if self._listens:
            self._link.listen(self.stream, -1)
            self._listens = False
