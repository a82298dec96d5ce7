"""A session with one broker, kept by a thread of its own.

When the broker is away, the link greets it, or the next of several, after growing pauses, and then
repeats all questions without an answer. That is safe: submits are idempotent by job id.
"""
import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, wait
from itertools import count
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from ._codes import (TimedOutError, TooLargeError, UnexpectedMessageError, UnreachableError,
                     UsageError)
from ._endpoint import Key
from ._error import MillraceError, error_of
from ._frame import VERSION, envelope, pack, unpack
from ._handed import Listen, Question, Ring, fail
from ._sockets import Sockets
from ._states import Welcome
from ._watchers import Watchers

log = logging.getLogger("millrace")
HELLO_ID = 1  # questions have higher ids
GREETING_S = 1.0  # first wait for a welcome; doubles up to the next
GREETING_MOST_S = 8.0
ANSWER_S = 30.0  # a question this old means that the broker is away
TICK_MS = 1_000
FULL_TICK_MS = 20
CURSORS_S = 2.0  # time that moves of cursors get when the session ends
OPEN_QUESTIONS = 32  # with the broker at once; it takes twice as many of a session
FRAME_BYTES = 16 * 1024 * 1024 - 1024  # of a client; a larger one closes the connection
CAPABILITIES = ["not_found"]

Answer = Tuple[str, Dict[str, Any]]  # kind and body


class LinkOptions(NamedTuple):
    endpoint: str
    key: Optional[Key] = None
    name: str = ""
    connect_timeout_s: float = 10.0
    away_timeout_s: Optional[float] = 300.0


class Link:
    def __init__(self, options: LinkOptions) -> None:
        self.options = options
        self.welcome = Welcome({})
        self.ready: "Future[None]" = Future()  # the first welcome
        self._ready = False
        self._closing = False
        self._failure: Optional[BaseException] = None
        # No lock guards what other threads hand over: amid each step the garbage collector may end
        # an iteration, which asks too, or a client, which waits for this session's thread.
        self._inbox: Deque[Union[Ring, Listen]] = deque()
        self._ids = count(HELLO_ID + 1)
        self._questions: Dict[int, Question] = {}
        self._listeners: Dict[str, int] = {}  # by stream
        self._highs: Dict[str, int] = {}
        self._rings: List[Ring] = []
        self.watchers = Watchers(self.ask)
        self._fatal: Optional[MillraceError] = None
        self._connected = False
        self._reason = ""
        self._away_since = time.monotonic()
        self._greeted = 0.0
        self._greeting_s = GREETING_S
        self._heard = time.monotonic()
        self._pid = os.getpid()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="millrace-link", daemon=True)
        self._thread.start()

    # What other threads call.

    def ask(self, kind: str, body: Union[bytes, Mapping[str, Any]]) -> "Future[Answer]":
        """Sends a question. The future gets the answer's kind and body, or the refusal."""
        packed = body if isinstance(body, bytes) else pack(body)
        answer: "Future[Answer]" = Future()
        answer.set_running_or_notify_cancel()
        if len(packed) > FRAME_BYTES:
            answer.set_exception(TooLargeError(
                f"this {kind} has {len(packed)} bytes, and a message may have {FRAME_BYTES}",
                "send it in parts"))
            return answer
        if self._serves(answer):
            number = next(self._ids)
            self._questions[number] = Question(kind, envelope(kind, number, packed), answer)
            self._wake()
            self._serves(answer)  # the thread may have ended before it saw this question
        return answer

    def listen(self, stream: str, change: int = 1) -> None:
        """One more wants to be rung for the stream; with -1, one less."""
        if self._failure is None:
            self._inbox.append(Listen(stream, change))
        self._wake()

    def ring(self, stream: str, past: int) -> "Future[None]":
        """Is done when the stream has a higher number than `past`, or may have one."""
        rung: "Future[None]" = Future()
        rung.set_running_or_notify_cancel()
        if self._serves(rung):
            self._inbox.append(Ring(stream, past, rung))
            self._wake()
            self._serves(rung)
        return rung

    def _serves(self, future: "Future[Any]") -> bool:
        """Whether the thread still takes what is handed over; else the future gets the failure."""
        if os.getpid() != self._pid:
            raise UsageError("this client was made before a fork, and does not live on after it",
                             "make a client in each process")
        if self._failure is not None:
            fail(future, self._failure)
        return self._failure is None

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"x")
        except OSError:
            pass  # it is awake, or has ended

    def fail(self, error: MillraceError) -> None:
        """Ends the session with an error, which all questions get from now on."""
        self._fatal = error
        self._wake()

    def close(self) -> None:
        if os.getpid() != self._pid:
            return
        if self._ready and not self.is_this_thread():
            moves = [q.answer for q in list(self._questions.values()) if q.kind == "acknowledge"]
            wait(moves, CURSORS_S)
        self._closing = True
        self._wake()
        if not self.is_this_thread():
            self._thread.join()

    def is_this_thread(self) -> bool:
        """Whether it is the session's own thread that asks: no answer comes while it waits."""
        return threading.current_thread() is self._thread

    # What the thread does.

    def _run(self) -> None:
        failure: BaseException = UsageError("the client is closed", "make another one")
        sockets = Sockets(self.options.endpoint, self.options.key, self._wake_out.fileno())
        try:
            self._greet(sockets)
            while not self._closing:
                self._step(sockets)
        except BaseException as error:  # whatever it is, those who wait get it
            failure = error
        self._failure = failure  # first: what is handed over later gets it from `_serves`
        waiting: "List[Future[Any]]" = [q.answer for q in list(self._questions.values())]
        handed = [self._inbox.popleft() for _ in range(len(self._inbox))]
        waiting += [item.rung for item in [*handed, *self._rings] if isinstance(item, Ring)]
        self._questions.clear()
        for one in [*waiting, self.ready]:
            fail(one, failure)
        self.watchers.fail(failure)
        sockets.close(envelope("goodbye", 0, pack({})) if self._ready else None)
        self._wake_in.close()
        self._wake_out.close()

    def _greet(self, sockets: Sockets) -> None:
        sockets.connect()
        self._ready = False
        self._greeted = time.monotonic()
        hello = {"name": self.options.name, "software": "millrace python",
                 "version_max": VERSION, "capabilities": CAPABILITIES}
        sockets.send(envelope("hello", HELLO_ID, pack(hello)))
        for question in list(self._questions.values()):
            question.sent = 0.0

    def _lose(self, sockets: Sockets, reason: str) -> None:
        now = time.monotonic()
        if self._ready:
            self._away_since = now
            log.warning("the broker at %s is away: %s", self.options.endpoint, reason)
            self.watchers.ask_again()
        else:
            self._greeting_s = min(self._greeting_s * 2, GREETING_MOST_S)
        self._reason = reason
        sockets.turn()
        self._greet(sockets)

    def _timeout_ms(self) -> int:
        now = time.monotonic()
        if not self._ready:
            until = min(self._greeted + self._greeting_s, self._next_deadline())
            return max(1, min(TICK_MS, int((until - now) * 1000) + 1))
        unsent = any(q.sent == 0.0 for q in list(self._questions.values()))
        return FULL_TICK_MS if unsent else TICK_MS

    def _limit_s(self) -> Optional[float]:
        """How long a question may wait while the broker is away."""
        if self.ready.done():
            return self.options.away_timeout_s
        return self.options.connect_timeout_s

    def _next_deadline(self) -> float:
        limit = self._limit_s()
        asked = [q.asked for q in list(self._questions.values())]
        if not self.ready.done():
            asked.append(self._away_since)
        if limit is None or not asked:
            return float("inf")
        return max(min(asked), self._away_since) + limit

    def _step(self, sockets: Sockets) -> None:
        happened = sockets.wait(self._timeout_ms())
        if happened.woken:
            self._take_inbox(sockets)
        if happened.refused or self._fatal:
            raise happened.refused or self._fatal or AssertionError()
        self._connected = self._connected or happened.connected
        for frame in happened.frames:
            self._take(sockets, *unpack(frame))
        for stream, high in happened.bells:
            if stream in self._listeners:
                self._highs[stream] = high
        self._answer_rings()
        if happened.lost:
            self._connected = False
            self._lose(sockets, "the connection broke")
        self._check_patience(sockets)
        if self._ready:
            self._send_questions(sockets)

    def _take_inbox(self, sockets: Sockets) -> None:
        try:
            self._wake_out.recv(4096)
        except BlockingIOError:
            pass
        while self._inbox:
            item = self._inbox.popleft()
            if isinstance(item, Ring):
                self._rings.append(item)
            elif isinstance(item, Listen):
                self._count(sockets, *item)

    def _count(self, sockets: Sockets, stream: str, change: int) -> None:
        before = self._listeners.get(stream, 0)
        self._listeners[stream] = before + change
        if before == 0:
            sockets.subscribe(stream)
        elif before + change == 0:
            sockets.unsubscribe(stream)
            del self._listeners[stream]
            self._highs.pop(stream, None)

    def _answer_rings(self, all_of_them: bool = False) -> None:
        left = []
        for ring in self._rings:
            heard = self._highs.get(ring.stream, 0) > ring.past
            if heard or all_of_them or ring.stream not in self._listeners:
                ring.rung.set_result(None)
            else:
                left.append(ring)
        self._rings = left

    def _take(self, sockets: Sockets, kind: str, number: int, body: Dict[str, Any]) -> None:
        self._heard = time.monotonic()
        if kind == "welcome":
            if not self._ready:
                self._welcomed(sockets, body)
            return
        if kind == "partials":
            self.watchers.take(body)
            return
        if kind == "goodbye":  # the session ends, and not always because the broker does
            if self._ready:
                self._lose(sockets, f"it said goodbye: {body.get('reason', '')}")
            return
        if kind == "refused":
            error = error_of(body.get("error", {}))
            if not self._ready and number == HELLO_ID:
                self._put_off(error)
                return
            if self._ready and isinstance(error, UnexpectedMessageError):
                self._lose(sockets, "the broker has restarted")
                return
        question = self._questions.pop(number, None)
        if question is None:
            return  # a second answer to a question that was repeated
        if kind == "refused" and error.retry_ms is not None and question.kind != "submit":
            question.sent = 0.0  # for want of room; submits have pauses of their own
            question.not_before = time.monotonic() + error.retry_ms / 1000
            self._questions[number] = question
        elif kind == "refused":
            question.answer.set_exception(error)
        else:
            question.answer.set_result((kind, body))

    def _put_off(self, error: MillraceError) -> None:
        """The hello was refused: for good, unless it is for want of room."""
        if error.retry_ms is None and error.code not in ("overloaded", "draining"):
            raise error
        self._reason = error.message
        if error.retry_ms is not None:
            self._greeting_s = min(error.retry_ms / 1000, GREETING_MOST_S)

    def _welcomed(self, sockets: Sockets, body: Dict[str, Any]) -> None:
        self.welcome = Welcome(body)
        self._ready = True
        self._greeting_s = GREETING_S
        if not self.ready.done():
            self.ready.set_result(None)
        elif self._reason:
            log.warning("the broker at %s is back after %.1f s", self.options.endpoint,
                        time.monotonic() - self._away_since)
        self._reason = ""
        if self.welcome.doorbell:
            sockets.connect_doorbell(self.welcome.doorbell, self.welcome.doorbell_prefix,
                                     list(self._listeners))
        self._answer_rings(all_of_them=True)  # some may have been missed

    def _send_questions(self, sockets: Sockets) -> None:
        questions = list(self._questions.values())
        room = OPEN_QUESTIONS - sum(q.sent != 0.0 for q in questions)
        now = time.monotonic()
        for question in questions:
            if room <= 0:
                return
            if question.sent == 0.0 and question.not_before <= now:
                if not sockets.send(question.frame):
                    return
                question.sent = now
                room -= 1

    def _check_patience(self, sockets: Sockets) -> None:
        now = time.monotonic()
        if self._ready:
            late = [q for q in list(self._questions.values())
                    if q.sent and now - max(q.sent, self._heard) > ANSWER_S]
            if late:
                self._lose(sockets, "it does not answer")
            return
        if now >= self._next_deadline():
            self._give_up(now)
        if now - self._greeted > self._greeting_s:
            self._lose(sockets, self._reason or "no answer")

    def _give_up(self, now: float) -> None:
        limit = self._limit_s() or 0.0
        error = self._absence(now)
        if not self.ready.done():
            raise error
        for number, question in list(self._questions.items()):
            if now - max(question.asked, self._away_since) >= limit:
                del self._questions[number]
                fail(question.answer, error)

    def _absence(self, now: float) -> MillraceError:
        where, waited = self.options.endpoint, now - self._away_since
        if self._connected:
            return TimedOutError(f"something listens at {where}, but has not answered for "
                                 f"{waited:.0f} s: {self._reason or 'it is silent'}")
        return UnreachableError(f"nothing has answered at {where} for {waited:.0f} s; "
                                "nothing listens there")


def program_name() -> str:
    """What a person sees as this client's name: host and program."""
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "python")
    return f"{socket.gethostname()} {program} {os.getpid()}"
