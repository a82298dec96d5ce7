"""Submits jobs in bulk: gathers them into messages, keeps a few messages in flight, and sends again
what the broker had no room for, after pauses that grow as long as it takes no job."""
import time
from concurrent.futures import Future
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._codes import TooLargeError, UnexpectedMessageError
from ._error import MillraceError, error_of
from ._frame import pack, submit_body
from ._link import Answer, Link
from ._trace import traced

MESSAGES = 4  # in flight at once
JOBS_PER_MESSAGE = 1_000
BYTES_PER_MESSAGE = 2 * 1024 * 1024
PAUSE_S = 0.1  # the first; doubles up to the next
PAUSE_MOST_S = 5.0
RETRY_MOST_S = 60.0


class Receipt:
    """What became of one submitted job.

    `job` is its id, `known` tells that the same job had been submitted before, `state` is how far
    it is, `waits` says why no engine can run it now, and `error` why it was refused: then nothing
    was stored. `index` is its place among the jobs submitted together.
    """

    __slots__ = ("index", "job", "known", "state", "waits", "error")

    def __init__(self, index: int, answer: Mapping[str, Any],
                 error: Optional[MillraceError]) -> None:
        self.index = index
        self.job: str = answer.get("job", "")
        self.known: bool = answer.get("known", False)
        self.state: Optional[str] = answer.get("state")
        self.waits: str = answer.get("waits", "")
        self.error = error

    @property
    def ok(self) -> bool:
        return self.error is None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"Receipt({self.index}, {self.job!r}, refused: {self.error.code})"
        known = ", known" if self.known else ""
        return f"Receipt({self.index}, {self.job!r}, {self.state}{known})"


Item = Tuple[int, bytes]  # the index of a job, and the job as it is sent


def messages_of(items: List[Item]) -> Iterator[List[Item]]:
    """Divides jobs among messages, none of which has too many jobs or bytes."""
    message: List[Item] = []
    size = 0
    for item in items:
        full = len(message) == JOBS_PER_MESSAGE or size + len(item[1]) > BYTES_PER_MESSAGE
        if message and full:
            yield message
            message, size = [], 0
        message.append(item)
        size += len(item[1])
    if message:
        yield message


class Submitter:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._gathered: List[Item] = []
        self._bytes = 0
        self._in_flight: "Dict[Future[Answer], List[Item]]" = {}
        self._waiting: List[Item] = []
        self._resume = 0.0
        self._pause_s = PAUSE_S
        self._failed: List[Receipt] = []
        self.unanswered = 0

    def refuse(self, index: int, job: str, error: MillraceError) -> None:
        """Answers for what is no job, as for one that the broker refuses: no other is concerned."""
        self.unanswered += 1
        self._refuse(index, job, error)

    def _refuse(self, index: int, job: str, error: MillraceError) -> None:
        error.message = f"job {index}: {error.message}"
        self._failed.append(Receipt(index, {"job": job}, error))

    def add(self, index: int, job: Mapping[str, Any]) -> None:
        self.unanswered += 1
        try:
            packed = pack(traced(job))
            most = self._link.welcome.job_bytes
            if len(packed) > most:
                raise TooLargeError(f"it has {len(packed)} bytes, and a job may have {most}")
        except MillraceError as error:
            return self._refuse(index, str(job.get("id") or ""), error)
        if self._has_room() and self._bytes + len(packed) > BYTES_PER_MESSAGE:
            self._flush()
        self._gathered.append((index, packed))
        self._bytes += len(packed)

    def wants_more(self) -> bool:
        """Whether to add further jobs now: this is the backpressure."""
        self._send(False)
        if self._waiting:
            return False  # the broker has no room
        return not self._is_full() or len(self._in_flight) < MESSAGES

    def _is_full(self) -> bool:
        return len(self._gathered) >= JOBS_PER_MESSAGE or self._bytes >= BYTES_PER_MESSAGE

    def _has_room(self) -> bool:
        return len(self._in_flight) < MESSAGES and not self._waiting

    def _send(self, all_of_them: bool) -> None:
        """A few jobs alone go at once where nothing is in flight; else messages become full."""
        if self._waiting and time.monotonic() >= self._resume:
            items, self._waiting = self._waiting, []
            for message in messages_of(items):
                self._ask(message)
        if self._has_room() and (self._is_full() or all_of_them or not self._in_flight):
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            self._ask(self._gathered)
            self._gathered, self._bytes = [], 0

    def _ask(self, items: List[Item]) -> None:
        body = submit_body(job for _, job in items)
        self._in_flight[self._link.ask("submit", body)] = items

    def stop(self) -> None:
        """Forgets what has yet to be sent."""
        self._gathered, self._bytes, self._waiting = [], 0, []

    def take(self, source_waits: bool) -> List[Receipt]:
        """What is answered. `source_waits`: no further job comes soon, so send what is there."""
        self._send(source_waits)
        found, self._failed = self._failed, []
        for future in [one for one in self._in_flight if one.done()]:
            found += self._answers(self._in_flight.pop(future), future)
        self.unanswered -= len(found)
        return found

    def _answers(self, items: List[Item], future: "Future[Answer]") -> List[Receipt]:
        error = future.exception()
        if isinstance(error, MillraceError) and error.code not in ("unreachable", "timed_out"):
            if error.retry_ms is not None:
                self._wait_with(items, error)
                return []
            return [Receipt(index, {}, error) for index, _ in items]
        _, body = future.result()
        answers: Sequence[Mapping[str, Any]] = body.get("answers", ())
        if len(answers) != len(items):
            raise UnexpectedMessageError("the broker's answer does not fit the jobs",
                                         "report it: both sides disagree on the protocol")
        return self._receipts(items, answers)

    def _receipts(self, items: List[Item], answers: Sequence[Mapping[str, Any]]) -> List[Receipt]:
        found, again, reason = [], [], None
        for item, answer in zip(items, answers):
            refusal = answer.get("error")
            error = None if refusal is None else error_of(refusal)
            if error is not None and error.retry_ms is not None:
                again.append(item)
                reason = error
                continue
            found.append(Receipt(item[0], answer, error))
        if found:
            self._pause_s = PAUSE_S
        if reason is not None:
            self._wait_with(again, reason)
        return found

    def _wait_with(self, items: List[Item], reason: MillraceError) -> None:
        if not self._waiting:
            pause = max((reason.retry_ms or 0) / 1000, self._pause_s)
            self._resume = time.monotonic() + min(pause, RETRY_MOST_S)
            self._pause_s = min(self._pause_s * 2, PAUSE_MOST_S)
        self._waiting += items

    def futures(self) -> "List[Future[Answer]]":
        return list(self._in_flight)

    def pause_s(self) -> Optional[float]:
        """How long until something is due that no future tells."""
        return max(0.0, self._resume - time.monotonic()) if self._waiting else None
