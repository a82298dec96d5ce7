"""Maps prompts to results: submits jobs, and reads their results from a stream of their own."""
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Set, Tuple

from ._codes import NotFoundError, UsageError
from ._error import MillraceError
from ._flow import END, LATER, Emit, Flow, Source, Wait
from ._flows import PULLS_AT_ONCE, PULLS_S, entry_of, one_answer, one_entry
from ._jobs import job_of, named, nameless
from ._leaving import Leaving
from ._link import Link
from ._reader import POLL_S, Reader
from ._result import Result, refusal, result_of
from ._submitter import Receipt, Submitter

LOOKUPS_AT_ONCE = 64
CANCELLED_AT_ONCE = 10_000  # as many as a message may name
ENDED = ("completed", "failed", "cancelled", "expired")


class MapOptions(NamedTuple):
    fields: Mapping[str, Any]
    stream: str
    named: bool  # the stream may hold results of the same map, from before the program ended
    ordered: bool
    window: int
    on_result: Callable[[Result], Any]


class _Lookups:
    """Finds the results of jobs that had ended before: asks where each is, and fetches it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._wanted: Deque[str] = deque()
        self._under_way: "Dict[Future[Any], Tuple[str, str, int]]" = {}

    def add(self, job: str) -> None:
        self._wanted.append(job)

    def take(self) -> List[Tuple[str, Any]]:
        """Jobs, each with its result or with the error that is in place of it."""
        found: List[Tuple[str, Any]] = []
        for future in [one for one in self._under_way if one.done()]:
            job, stream, number = self._under_way.pop(future)
            try:
                kind, body = future.result()
                if number:
                    found.append((job, entry_of(kind, body, stream, number)))
                elif body.get("job_number"):
                    stream, number = body["job_stream"], body["job_number"]
                    asked = self._link.ask("fetch", one_entry(stream, number))
                    self._under_way[asked] = job, stream, number
                # else it runs again, and its result will come
            except MillraceError as error:
                found.append((job, error))
        while self._wanted and len(self._under_way) < LOOKUPS_AT_ONCE:
            job = self._wanted.popleft()
            self._under_way[self._link.ask("status_request", {"job": job})] = job, "", 0
        return found

    def futures(self) -> "List[Future[Any]]":
        return list(self._under_way)


class _Map:
    """The jobs of a map that have no result yet, and the results that wait for earlier ones."""

    def __init__(self, options: MapOptions, lookups: _Lookups) -> None:
        self.options = options
        self.lookups = lookups
        self.given = 0  # how many prompts were taken
        self._names: Dict[int, str] = {}  # of the jobs that are open, by index
        self._items: Dict[str, Tuple[int, Any]] = {}
        self._stored: Set[str] = set()  # those that the broker has acknowledged
        self._waiting: Dict[int, Result] = {}
        self._next = 0  # the next index in order

    def open(self) -> int:
        return len(self._names) + len(self._waiting)

    def full(self) -> bool:
        return self.open() >= self.options.window

    def add(self, submitter: Submitter, item: Any) -> None:
        index, stream = self.given, self.options.stream
        self.given += 1
        try:
            job = named(job_of(item, self.options.fields), index, stream)
        except MillraceError as error:
            name = nameless(index, stream)
            submitter.refuse(index, name, error)
        else:
            name = job["id"]
            if name in self._items:
                raise UsageError(f"the id {name} is there twice among the jobs of this map",
                                 "give each job an id of its own, or none")
            submitter.add(index, job)
        self._names[index] = name
        self._items[name] = index, item

    def answered(self, receipt: Receipt) -> List[Result]:
        """The result of a job that was refused. One that had ended before is looked up."""
        job = self._names.get(receipt.index)
        if job is None:
            return []
        if receipt.error is not None:
            return self.failed(job, receipt.error)
        self._stored.add(job)
        if receipt.known and receipt.state in ENDED:
            self.lookups.add(job)
        return []

    def failed(self, job: str, error: MillraceError) -> List[Result]:
        if job not in self._items:
            return []
        index, item = self._close(job)
        return [refusal(index, item, job, error)]

    def ended(self, result: Result) -> List[Result]:
        if result.job not in self._items:
            return []  # it has been given, or belongs to a part that is not submitted again yet
        result.index, result.item = self._close(result.job)
        return [result]

    def _close(self, job: str) -> Tuple[int, Any]:
        index, item = self._items.pop(job)
        del self._names[index]
        self._stored.discard(job)
        return index, item

    def stored(self) -> List[str]:
        """The open jobs that the broker has."""
        return list(self._stored)

    def in_turn(self, results: List[Result]) -> List[Result]:
        if not self.options.ordered:
            return results
        for result in results:
            self._waiting[result.index or 0] = result
        ready = []
        while self._next in self._waiting:
            ready.append(self._waiting.pop(self._next))
            self._next += 1
        return ready


def map_jobs(link: Link, items: Any, options: MapOptions, leaving: Leaving) -> Flow:
    """Submits jobs and emits their results. At most `window` jobs are open at once."""
    first = 1
    if options.named:
        first = yield from _after_last(link, options.stream)
    reader = Reader(link, options.stream, first, skip_trimmed=True)
    source, state, submitter = Source(items), _Map(options, _Lookups(link)), Submitter(link)
    try:
        yield from _map_jobs(submitter, source, state, reader)
    finally:
        reader.close()
        if state.given and not options.named:  # nobody else knows the stream
            leaving.begin(options.stream, _take_back(link, submitter, state))


def _take_back(link: Link, submitter: Submitter, state: _Map) -> Flow:
    """Cancels what is open, and then removes the stream. Waits for one future at a time."""
    submitter.stop()
    while submitter.futures():  # an id may be refused because it belongs to a job of another
        with suppress(MillraceError):
            yield from one_answer(submitter.futures()[0])
        for receipt in submitter.take(False):
            state.answered(receipt)
        submitter.stop()
    if state.stored():
        yield from _cancel_all(link, state.options.stream, state.stored())
    yield from one_answer(link.ask("remove", {"stream": state.options.stream}))


def _cancel_all(link: Link, stream: str, jobs: List[str]) -> Flow:
    """Is done when the last of the jobs has ended: one that ends later brings a stream back."""
    link.listen(stream)
    try:
        while True:
            after = yield from _after_last(link, stream)
            running = 0
            for first in range(0, len(jobs), CANCELLED_AT_ONCE):
                body = {"jobs": jobs[first:first + CANCELLED_AT_ONCE]}
                running += (yield from one_answer(link.ask("cancel", body)))[1].get("requested", 0)
            if not running:
                return
            yield from one_answer(link.ring(stream, after - 1))
    finally:
        link.listen(stream, -1)


def _map_jobs(submitter: Submitter, source: Source, state: _Map, reader: Reader) -> Flow:
    options, lookups = state.options, state.lookups
    while not (source.ended and state.open() == 0):
        yield from _add(submitter, source, state)
        waits = source.ended or bool(source.waiting) or state.full()
        found: List[Result] = []
        for receipt in submitter.take(waits):
            found += state.answered(receipt)
        for job, outcome in lookups.take():
            found += (state.failed(job, outcome) if isinstance(outcome, MillraceError)
                      else state.ended(outcome))
        reader.ask()
        entries = reader.take()
        further = reader.futures()  # it is told of them also where a source blocks for each item
        for entry in entries:
            found += state.ended(result_of(entry, options.stream, reader.epoch))
        for result in found:
            options.on_result(result)
        ready = state.in_turn(found)
        if ready:
            yield Emit(ready)
        elif not found and not entries and (waits or not submitter.wants_more()):
            pause = submitter.pause_s()
            coming = [] if state.full() or not submitter.wants_more() else source.waiting
            yield Wait([*submitter.futures(), *coming, *lookups.futures(), *further],
                       POLL_S if pause is None else min(pause, POLL_S))


def _add(submitter: Submitter, source: Source, state: _Map) -> Flow:
    until = time.monotonic() + PULLS_S
    for _ in range(PULLS_AT_ONCE):
        if (source.ended or state.full() or not submitter.wants_more()
                or time.monotonic() > until):
            break
        item = yield from source.next()
        if item is LATER or item is END:
            break
        state.add(submitter, item)


def _after_last(link: Link, stream: str) -> Flow:
    """Results that were there before are looked up by their jobs, not read."""
    try:
        _, status = yield from one_answer(link.ask("status_request", {"stream": stream}))
    except NotFoundError:
        return 1
    return int(status.get("high", 0)) + 1
