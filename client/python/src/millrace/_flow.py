"""How one piece of logic serves both kinds of clients.

What submits, reads and maps is written once, as a generator (a flow) that neither blocks nor
awaits: it yields what it waits for, and what it gives to the user. `iterate` drives it by blocking
and `aiterate` by awaiting.
"""
import asyncio
import time
import weakref
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, AsyncGenerator, Generator, Iterable, List, Mapping, Optional, Union

from ._codes import UsageError

END = object()  # a source has no more items
LATER = object()  # the next item has yet to come; None may be an item


class Wait:
    """Until one of the futures is done, or the time has passed."""

    __slots__ = ("futures", "timeout_s")

    def __init__(self, futures: "Iterable[Future[Any]]", timeout_s: Optional[float] = None) -> None:
        self.futures, self.timeout_s = list(futures), timeout_s


class Pull:
    """The next item of a source: it itself, END, or a future where it has yet to come."""

    __slots__ = ("source",)

    def __init__(self, source: Any) -> None:
        self.source = source


class Emit:
    """Items for the user. `taken` counts those that the user is done with. Where the user stops
    among them, the flow may name in `last` what is waited for before the iteration has ended."""

    __slots__ = ("items", "taken", "last")

    def __init__(self, items: List[Any]) -> None:
        self.items, self.taken = items, 0
        self.last: Optional[Wait] = None


Flow = Generator[Union[Wait, Pull, Emit], Any, Any]


def iterate(flow: Flow, keep: Any = None) -> Generator[Any, None, Any]:
    """Drives a flow in the calling thread, which blocks while the flow waits. The iteration holds
    `keep`, such as the client whose session it needs, as long as it is there itself."""
    value: Any = None
    step: Any = None
    try:
        while True:
            step = flow.send(value)
            value = None
            if isinstance(step, Emit):
                for item in step.items:
                    yield item
                    step.taken += 1
            elif isinstance(step, Pull):
                value = next(step.source, END)
            elif step.futures:
                wait(step.futures, step.timeout_s, FIRST_COMPLETED)
            else:
                time.sleep(step.timeout_s or 0)
    except StopIteration as stop:
        return stop.value
    finally:
        flow.close()
        if isinstance(step, Emit) and step.last is not None:
            wait(step.last.futures, step.last.timeout_s)


def aside(flow: Flow) -> "Future[Any]":
    """Drives a flow that waits for one future at a time, and for nothing else, in the threads that
    end these, so that nobody else waits. The future gets what it returns."""
    returned: "Future[Any]" = Future()
    returned.set_running_or_notify_cancel()

    def go_on(_: Any = None) -> None:
        try:
            step: Any = next(flow)
        except StopIteration as stop:
            returned.set_result(stop.value)
        except BaseException as error:  # whatever it is, those who wait get it
            returned.set_exception(error)
        else:
            step.futures[0].add_done_callback(go_on)

    go_on()
    return returned


def finish(flow: Flow) -> Any:
    """Drives a flow that emits nothing to its end, and gives what it returns."""
    steps = iterate(flow)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


async def _pull(source: Any) -> Any:
    try:
        return await source.__anext__()
    except StopAsyncIteration:
        return END


def _pulled(task: "asyncio.Task[Any]") -> "Future[Any]":
    """The next item of an asynchronous source, as a future that the flow reads."""
    found: "Future[Any]" = Future()
    found.set_running_or_notify_cancel()

    def done(task: "asyncio.Task[Any]") -> None:
        if task.cancelled():
            found.set_exception(asyncio.CancelledError())
        elif task.exception() is not None:
            found.set_exception(task.exception())
        else:
            found.set_result(task.result())

    task.add_done_callback(done)
    return found


class _Bell:
    """Rings in its loop when one of the futures that it was given is done. It asks each of them
    once, however often it waits for it: a future keeps all that ask, and may take days."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: "Optional[asyncio.Future[None]]" = None
        self._asked: "weakref.WeakSet[Future[Any]]" = weakref.WeakSet()

    def _ring(self, _: "Future[Any]") -> None:
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, futures: "List[Future[Any]]", timeout_s: Optional[float]) -> None:
        """May end early: a future that was given before rings, too.

        Before Python 3.12, `asyncio.wait_for` swallows a cancellation that comes together with
        what it waits for, so the time is watched here."""
        self._waiter = self._loop.create_future()
        for future in futures:
            if future not in self._asked:
                self._asked.add(future)
                future.add_done_callback(self._ring)
        if any(future.done() for future in futures):
            return await asyncio.sleep(0)
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, self._wake)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()


class AsyncRun:
    """A flow that is driven by awaiting. After the iteration, `value` is what the flow returned."""

    def __init__(self, flow: Flow, keep: Any = None) -> None:
        self._flow, self._keep = flow, keep
        self.value: Any = None

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        value: Any = None
        step: Any = None
        bell = _Bell()
        pull: "Optional[asyncio.Task[Any]]" = None
        try:
            while True:
                step = self._flow.send(value)
                value = None
                if isinstance(step, Emit):
                    for item in step.items:
                        yield item
                        step.taken += 1
                elif isinstance(step, Pull) and hasattr(step.source, "__anext__"):
                    pull = asyncio.ensure_future(_pull(step.source))
                    value = _pulled(pull)
                elif isinstance(step, Pull):
                    value = next(step.source, END)
                elif step.futures:
                    await bell.wait(step.futures, step.timeout_s)
                else:
                    await asyncio.sleep(step.timeout_s or 0)
        except StopIteration as stop:
            self.value = stop.value
        finally:
            self._flow.close()
            if pull is not None and not pull.done():
                pull.cancel()  # nobody would get the item
                await asyncio.wait([pull])
            if isinstance(step, Emit) and step.last is not None:
                await _Bell().wait(step.last.futures, step.last.timeout_s)


def aiterate(flow: Flow, keep: Any = None) -> AsyncGenerator[Any, None]:
    return AsyncRun(flow, keep).__aiter__()


async def afinish(flow: Flow) -> Any:
    run = AsyncRun(flow)
    async for _ in run:
        pass
    return run.value


class Source:
    """The items of a source, for a flow: `yield from source.next()` gives an item, END or
    LATER, which means that the next item has yet to come and `waiting` tells when."""

    def __init__(self, items: Any) -> None:
        if isinstance(items, (str, bytes, Mapping)):
            raise UsageError(f"{type(items).__name__} is one job, not many",
                             "give a list or another iterable of jobs")
        self._items = items.__aiter__() if hasattr(items, "__aiter__") else iter(items)
        self._coming: "Optional[Future[Any]]" = None
        self.ended = False

    @property
    def waiting(self) -> "List[Future[Any]]":
        return [] if self._coming is None else [self._coming]

    def next(self) -> Flow:
        found = self._coming
        if found is None:
            found = yield Pull(self._items)
        if isinstance(found, Future):
            self._coming = found
            if not found.done():
                return LATER
            self._coming = None
            found = found.result()
        self.ended = self.ended or found is END
        return found
