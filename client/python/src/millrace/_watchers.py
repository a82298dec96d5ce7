"""The streams whose partial texts a session wants, and who gets them."""
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, Mapping, NamedTuple, Tuple

from ._error import again


class Watcher(NamedTuple):
    take: Callable[[Mapping[str, Any]], None]  # gets the partial texts, in the link's thread
    fail: Callable[[BaseException], None]  # gets the error after which none come, in any thread


class Watchers:
    """Several may watch one stream. The broker knows only whether the session does."""

    def __init__(self, ask: "Callable[[str, Mapping[str, Any]], Future[Any]]") -> None:
        self._ask = ask
        self._by_stream: Dict[str, Tuple[Watcher, ...]] = {}  # each changed as a whole
        # Guards changes, which the broker gets in the same order. The garbage collector may end an
        # iteration amid another's change in the same thread, so it can be taken again.
        self._lock = threading.RLock()

    def add(self, stream: str, watcher: Watcher) -> None:
        with self._lock:
            self._by_stream[stream] = (*self._of(stream), watcher)
            answer = self._ask("watch", {"stream": stream})
        self._tell_refusal(stream, answer)

    def remove(self, stream: str, watcher: Watcher) -> None:
        with self._lock:
            left = tuple(one for one in self._of(stream) if one is not watcher)
            if left:
                self._by_stream[stream] = left
            elif self._by_stream.pop(stream, None) is not None:
                self._ask("watch", {"stream": stream, "on": False})

    def _of(self, stream: str) -> "Tuple[Watcher, ...]":
        return self._by_stream.get(stream, ())

    def _tell_refusal(self, stream: str, answer: "Future[Any]") -> None:
        def answered(answer: "Future[Any]") -> None:
            error = answer.exception()
            if error is not None:
                for watcher in self._of(stream):
                    watcher.fail(again(error))

        answer.add_done_callback(answered)

    def ask_again(self) -> None:
        """The session is lost, and the broker has forgotten with it what was asked for."""
        with self._lock:
            answers = [(one, self._ask("watch", {"stream": one})) for one in self._by_stream]
        for stream, answer in answers:
            self._tell_refusal(stream, answer)

    def take(self, body: Mapping[str, Any]) -> None:
        for watcher in self._of(body.get("stream", "")):
            watcher.take(body)

    def fail(self, error: BaseException) -> None:
        for watchers in list(self._by_stream.values()):
            for watcher in watchers:
                watcher.fail(again(error))
