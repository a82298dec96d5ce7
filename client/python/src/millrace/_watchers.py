"""The streams whose partial texts a session wants, and who gets them."""
from concurrent.futures import Future
from typing import Any, Callable, Dict, Mapping, NamedTuple


class Watcher(NamedTuple):
    take: Callable[[Mapping[str, Any]], None]  # gets the partial texts, in the link's thread
    fail: Callable[[BaseException], None]  # gets the error after which none come, in any thread


class Watchers:
    def __init__(self, ask: "Callable[[str, Mapping[str, Any]], Future[Any]]") -> None:
        self._ask = ask
        self._by_stream: Dict[str, Watcher] = {}

    def add(self, stream: str, watcher: Watcher) -> None:
        self._by_stream[stream] = watcher
        self._begin(stream)

    def remove(self, stream: str) -> None:
        if self._by_stream.pop(stream, None) is not None:
            self._ask("watch", {"stream": stream, "on": False})

    def _begin(self, stream: str) -> None:
        def answered(answer: "Future[Any]") -> None:
            error, watcher = answer.exception(), self._by_stream.get(stream)
            if error is not None and watcher is not None:
                watcher.fail(error)

        self._ask("watch", {"stream": stream}).add_done_callback(answered)

    def ask_again(self) -> None:
        """The session is lost, and the broker has forgotten with it what was asked for."""
        for stream in list(self._by_stream):
            self._begin(stream)

    def take(self, body: Mapping[str, Any]) -> None:
        watcher = self._by_stream.get(body.get("stream", ""))
        if watcher is not None:
            watcher.take(body)

    def fail(self, error: BaseException) -> None:
        for watcher in list(self._by_stream.values()):
            watcher.fail(error)
