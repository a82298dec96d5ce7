"""What other threads hand over to the thread of a session."""
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, NamedTuple

from ._error import again


class Question:
    __slots__ = ("kind", "frame", "answer", "asked", "sent", "not_before")

    def __init__(self, kind: str, frame: bytes, answer: "Future[Any]") -> None:
        self.kind, self.frame, self.answer = kind, frame, answer
        self.asked = time.monotonic()
        self.sent = 0.0  # 0: not on this connection yet
        self.not_before = 0.0


class Ring(NamedTuple):
    stream: str
    past: int
    rung: "Future[None]"


class Listen(NamedTuple):
    stream: str
    change: int  # of the number of those who listen


def fail(future: "Future[Any]", error: BaseException) -> None:
    """The future gets an exception of its own, as others may get the same error."""
    with suppress(InvalidStateError):  # it is done
        future.set_exception(again(error))
