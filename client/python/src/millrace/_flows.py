"""Submitting and reading, each written once for both kinds of clients (_flow.py)."""
import logging
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional

from ._codes import NotFoundError, TrimmedError, UsageError
from ._error import MillraceError
from ._flow import END, LATER, Emit, Flow, Source, Wait
from ._jobs import job_of
from ._link import Link
from ._reader import POLL_S, Position, Reader
from ._result import Result, result_of
from ._results import Partial
from ._submitter import Receipt, Submitter
from ._watchers import Watcher

log = logging.getLogger("millrace")
PULLS_AT_ONCE = 256  # before answers are looked at,
PULLS_S = 0.02  # and how long: a source may block for each item
REFUSALS_KEPT = 1_000
PARTIALS_KEPT = 10_000
WAIT_S = 0.005  # between questions after one job; doubles up to the next
WAIT_MOST_S = 0.5


class Summary:
    """What became of many submitted jobs: how many are stored, how many of these were known before,
    how many were refused, and the receipts of the first thousand of those."""

    def __init__(self) -> None:
        self.stored = self.known = self.refused = 0
        self.refusals: List[Receipt] = []

    def add(self, receipt: Receipt) -> None:
        if receipt.ok:
            self.stored += 1
            self.known += receipt.known
            return
        self.refused += 1
        if len(self.refusals) < REFUSALS_KEPT:
            self.refusals.append(receipt)

    def raise_for_error(self) -> "Summary":
        """Raises the error of the first job that was refused; else gives the summary itself."""
        for receipt in self.refusals:
            if receipt.error is not None:
                raise receipt.error
        return self

    def __repr__(self) -> str:
        return f"Summary(stored={self.stored}, known={self.known}, refused={self.refused})"


def one_answer(future: "Future[Any]") -> Flow:
    while not future.done():
        yield Wait([future])
    return future.result()


def submit_one(link: Link, job: Mapping[str, Any]) -> Flow:
    """Submits one job, and raises its refusal. Want of room is waited for."""
    submitter = Submitter(link)
    submitter.add(0, job)
    while True:
        receipts = submitter.take(source_waits=True)
        if receipts:
            if receipts[0].error is not None:
                raise receipts[0].error
            return receipts[0]
        yield Wait(submitter.futures(), submitter.pause_s())


def submit_each(link: Link, jobs: Any, fields: Mapping[str, Any]) -> Flow:
    """Emits the receipts of the jobs, in order, as the broker acknowledges them."""
    submitter, source, index = Submitter(link), Source(jobs), 0
    waiting: Dict[int, Receipt] = {}  # for answers to earlier jobs
    emitted = 0
    while True:
        index, waits = yield from _feed(submitter, source, fields, index, PULLS_AT_ONCE)
        answered = submitter.take(waits)
        waiting.update((receipt.index, receipt) for receipt in answered)
        receipts = []
        while emitted in waiting:
            receipts.append(waiting.pop(emitted))
            emitted += 1
        if receipts:
            yield Emit(receipts)
        elif answered:
            continue
        elif source.ended and submitter.unanswered == 0:
            return index
        elif waits or not submitter.wants_more():
            coming = source.waiting if submitter.wants_more() else []
            yield Wait([*submitter.futures(), *coming], submitter.pause_s())


def _feed(submitter: Submitter, source: Source, fields: Mapping[str, Any], index: int,
          most: int) -> Flow:
    """Adds jobs while the submitter wants them: the next index, and whether the source waits."""
    until = time.monotonic() + PULLS_S
    for _ in range(most):
        if source.ended or not submitter.wants_more() or time.monotonic() > until:
            break
        item = yield from source.next()
        if item is LATER or item is END:
            break
        try:
            job = job_of(item, fields)
        except MillraceError as error:
            submitter.refuse(index, "", error)
        else:
            submitter.add(index, job)
        index += 1
    return index, source.ended or bool(source.waiting)


def submit_many(link: Link, jobs: Any, fields: Mapping[str, Any],
                on_receipt: Callable[[Receipt], Any]) -> Flow:
    flow = submit_each(link, jobs, fields)
    summary, value = Summary(), None
    while True:
        try:
            step = flow.send(value)
        except StopIteration:
            return summary
        value = None
        if not isinstance(step, Emit):
            value = yield step
            continue
        for receipt in step.items:
            summary.add(receipt)
            on_receipt(receipt)


class Reading(NamedTuple):
    """What `results` was asked for."""

    stream: str = "results"
    after: Optional[Position] = None
    from_: int = 1
    cursor: str = ""
    follow: bool = True
    batch: str = ""
    limit: Optional[int] = None
    skip_trimmed: bool = False


def read(link: Link, asked: Reading) -> Flow:
    """Emits results in order. A cursor moves over those that the user is done with."""
    if asked.limit is not None and asked.limit < 0:
        raise UsageError(f"a limit of {asked.limit} results is below 0",
                         "give 0 or more, or leave it out")
    first, epoch = asked.from_, ""
    if asked.after is not None:
        if asked.after.stream != asked.stream:
            raise UsageError(f"the position belongs to the stream {asked.after.stream}, not to "
                             f"{asked.stream}", "name that stream, or leave the position out")
        first, epoch = asked.after.number + 1, asked.after.epoch
    elif asked.cursor:
        first = 0
    elif asked.batch:
        first = yield from _batch_begins(link, asked)
    reader = Reader(link, asked.stream, first, epoch, asked.cursor, asked.skip_trimmed)
    try:
        yield from _read(link, asked, reader)
    finally:
        reader.close()


def _read(link: Link, asked: Reading, reader: Reader) -> Flow:
    left = asked.limit if asked.limit is not None else -1
    while left != 0:
        reader.ask()
        entries = reader.take()
        results = [result_of(entry, asked.stream, reader.epoch) for entry in entries
                   if not asked.batch or entry["body"].get("batch") == asked.batch]
        results = results[:left] if left > 0 else results
        if results:
            left -= len(results) if left > 0 else 0
            yield from _give(link, asked, results)
        elif reader.caught_up and not asked.follow and not entries:
            return
        elif not entries:
            yield Wait(reader.futures(), POLL_S)


def _give(link: Link, asked: Reading, results: List[Result]) -> Flow:
    """Emits results, and moves the cursor over them, also where the user stops among them."""
    emitted = Emit(results)
    try:
        yield emitted
    finally:
        if asked.cursor and emitted.taken:
            moved = link.ask("acknowledge", {
                "stream": asked.stream, "cursor": asked.cursor,
                "number": results[emitted.taken - 1].number})
            if emitted.taken < len(results):  # the user stops here
                moved.add_done_callback(lambda answer: _tell_unmoved(asked, answer))
                if not link.is_this_thread():  # the collector may end an iteration in any thread
                    emitted.last = Wait([moved], link.options.connect_timeout_s)


def _tell_unmoved(asked: Reading, answer: "Future[Any]") -> None:
    """An iteration that is being left raises nothing any more."""
    error = answer.exception()
    if error is not None:
        log.warning("the cursor %s of the stream %s may not have moved over all that was read, "
                    "which then comes again: %s", asked.cursor, asked.stream, error)


def _batch_begins(link: Link, asked: Reading) -> Flow:
    """The first number that a result of the batch can have."""
    try:
        _, body = yield from one_answer(link.ask("batches_request", {"batch": asked.batch}))
    except NotFoundError:
        return 1  # its first job has yet to come
    batch = body["batches"][0]
    return max(1, batch.get("first", 0)) if batch.get("stream") == asked.stream else 1


def wait_for(link: Link, job: str) -> Flow:
    """The result of one job, which may have ended already."""
    pause_s = WAIT_S
    while True:
        _, status = yield from one_answer(link.ask("status_request", {"job": job}))
        if status.get("job_number"):
            found = yield from result_at(link, status["job_stream"], status["job_number"])
            return found
        yield Wait([], pause_s)
        pause_s = min(pause_s * 2, WAIT_MOST_S)


def result_at(link: Link, stream: str, number: int) -> Flow:
    """The result with this number of a stream."""
    kind, data = yield from one_answer(link.ask("fetch", one_entry(stream, number)))
    return entry_of(kind, data, stream, number)


def one_entry(stream: str, number: int) -> Dict[str, Any]:
    return {"stream": stream, "from": number, "max_entries": 1}


def entry_of(kind: str, data: Mapping[str, Any], stream: str, number: int) -> Result:
    if kind == "trimmed" or not data.get("entries"):
        raise TrimmedError(f"the stream {stream} no longer keeps {number}",
                           "retry the job, or submit it under another id")
    return result_of(data["entries"][0], stream, data["epoch"])


def partials(link: Link, stream: str) -> Flow:
    """Emits the texts of running jobs as they grow. A user who is slow loses some."""
    came: "Deque[Dict[str, Any]]" = deque(maxlen=PARTIALS_KEPT)
    rung: "List[Future[None]]" = [Future()]
    failure: List[BaseException] = []

    def ring() -> None:
        with suppress(InvalidStateError):  # it has rung already
            rung[0].set_result(None)

    def take(body: Mapping[str, Any]) -> None:
        came.extend(body.get("entries", ()))
        ring()

    def fail(error: BaseException) -> None:
        failure.append(error)
        ring()

    watcher = Watcher(take, fail)
    link.watchers.add(stream, watcher)
    try:
        while True:
            if rung[0].done():
                rung[0] = Future()
            entries = [Partial(came.popleft()) for _ in range(len(came))]
            if entries:
                yield Emit(entries)
            elif failure:
                raise failure[0]
            else:
                yield Wait([rung[0]], WAIT_MOST_S)
    finally:
        link.watchers.remove(stream, watcher)
