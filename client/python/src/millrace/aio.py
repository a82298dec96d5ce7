"""The client for asyncio. It has the methods of `Client`: those that answer are awaited, and those
that iterate are asynchronous iterators."""
from __future__ import annotations

import asyncio
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Dict, Iterable, List

from . import _flows
from ._endpoint import Path
from ._flow import afinish, aiterate
from ._flows import Reading, Summary
from ._jobs import Prompt, job_of, merged
from ._leaving import Leaving
from ._link import Link
from ._mapping import map_jobs
from ._options import WINDOW, id_of, link_options, map_options, names_of, position_of
from ._progress import Progress
from ._reader import Position
from ._result import Result
from ._results import JobCounts, Partial
from ._states import BatchState, Status, Welcome
from ._submitter import Receipt

if TYPE_CHECKING:
    from typing import Mapping

    from typing_extensions import Unpack

    from ._job import Job


class AsyncClient:
    """As `Client`, for asyncio. Sources of jobs may be asynchronous, too.

    >>> async def main():
    ...     async with millrace.AsyncClient() as client:
    ...         async for result in client.map(["The sea is", "The sky is"], max_tokens=16):
    ...             print(result.text)
    >>> asyncio.run(main())
    a stub's answer
    a stub's answer
    """

    def __init__(self, broker: str | None = None, *, key: Path | None = None,
                 name: str | None = None, connect_timeout_s: float = 10.0,
                 away_timeout_s: float | None = 300.0) -> None:
        self._link = Link(link_options(broker, key, name, connect_timeout_s, away_timeout_s))
        self._leaving = Leaving()
        self._finalizer = weakref.finalize(self, partial(self._leaving.close, self._link))

    @property
    def welcome(self) -> Welcome:
        """What the broker told about itself, after the first answer."""
        return self._link.welcome

    @property
    def endpoint(self) -> str:
        return self._link.options.endpoint

    async def close(self) -> None:
        """Ends the session. Jobs that are submitted run on."""
        for _ in range(2):  # in one turn, the loop begins to end the iterations that were left,
            await asyncio.sleep(0)  # and in the next these move their cursors
        await asyncio.get_running_loop().run_in_executor(None, self._finalizer)

    async def __aenter__(self) -> AsyncClient:
        try:
            await afinish(_flows.one_answer(self._link.ready))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def call(self, kind: str, **body: Any) -> Dict[str, Any]:
        """Any question of the protocol (schemas/docs/messages.md), and the body of its answer."""
        answer: Dict[str, Any] = (await afinish(_flows.one_answer(self._link.ask(kind, body))))[1]
        return answer

    # Jobs

    async def submit(self, job: Prompt | None = None, /, **fields: Unpack[Job]) -> Receipt:
        """As `Client.submit`."""
        receipt: Receipt = await afinish(_flows.submit_one(self._link, merged(job, fields)))
        return receipt

    async def submit_many(self, jobs: Iterable[Prompt] | AsyncIterable[Prompt], /, *,
                          on_receipt: Callable[[Receipt], Any] | None = None,
                          progress: Any = False, **fields: Unpack[Job]) -> Summary:
        """As `Client.submit_many`. The jobs may come from an asynchronous iterator."""
        bar = Progress(progress, jobs, "job")

        def take(receipt: Receipt) -> None:
            bar.receipt(receipt)
            if on_receipt is not None:
                on_receipt(receipt)

        try:
            summary: Summary = await afinish(_flows.submit_many(self._link, jobs, fields, take))
        finally:
            bar.close()
        return summary

    def submit_each(self, jobs: Iterable[Prompt] | AsyncIterable[Prompt], /,
                    **fields: Unpack[Job]) -> AsyncIterator[Receipt]:
        """As `Client.submit_each`."""
        return aiterate(_flows.submit_each(self._link, jobs, fields), keep=self)

    async def wait(self, job: str | Receipt) -> Result:
        """As `Client.wait`."""
        found: Result = await afinish(_flows.wait_for(self._link, id_of(job)))
        return found

    async def generate(self, job: Prompt | None = None, /, **fields: Unpack[Job]) -> Result:
        """As `Client.generate`."""
        results = self.map([job_of(merged(job, fields), {})])
        found = [result async for result in results]
        return found[0]

    async def map(self, prompts: Iterable[Prompt] | AsyncIterable[Prompt], /, *,
                  ordered: bool = True, name: str | None = None, window: int = WINDOW,
                  progress: Any = False, **fields: Unpack[Job]) -> AsyncIterator[Result]:
        """As `Client.map`. The prompts may come from an asynchronous iterator."""
        bar = Progress(progress, prompts, "prompt")
        options = map_options(fields, name, ordered, window, bar)
        results = aiterate(map_jobs(self._link, prompts, options, self._leaving))
        try:
            async for result in results:
                yield result
        finally:
            bar.close()
            await results.aclose()

    # Results

    def results(self, stream: str = "results", *, after: Position | str | None = None,
                from_: int = 1, cursor: str = "", follow: bool = True, batch: str = "",
                limit: int | None = None, skip_trimmed: bool = False) -> AsyncIterator[Result]:
        """As `Client.results`."""
        asked = Reading(stream, position_of(after), from_, cursor, follow, batch, limit,
                        skip_trimmed)
        return aiterate(_flows.read(self._link, asked), keep=self)

    def partials(self, stream: str = "results") -> AsyncIterator[Partial]:
        """As `Client.partials`."""
        return aiterate(_flows.partials(self._link, stream), keep=self)

    # What the broker holds

    async def status(self, *, job: str = "", batch: str = "", stream: str = "") -> Status:
        """As `Client.status`."""
        named = {"job": job, "batch": batch, "stream": stream}
        return Status(await self.call("status_request", **{k: v for k, v in named.items() if v}))

    async def batches(self) -> List[BatchState]:
        """All batches, by name."""
        found: List[BatchState] = []
        more = True
        while more:
            answer = await self.call("batches_request", after=found[-1].batch if found else "")
            found += [BatchState(one) for one in answer.get("batches", ())]
            more = answer.get("more", False)
        return found

    async def close_batch(self, batch: str, metadata: Mapping[str, str] | None = None) -> None:
        """As `Client.close_batch`."""
        await self.call("change_batch", batch=batch, close=True, metadata=metadata or {})

    async def counts(self, batch: str) -> JobCounts:
        """The jobs of a batch by state."""
        return JobCounts((await self.call("status_request", batch=batch)).get("counts", {}))

    async def cancel(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """As `Client.cancel`."""
        return await self.call("cancel", **names_of(jobs, batch))

    async def retry(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """As `Client.retry`."""
        return await self.call("retry", **names_of(jobs, batch))

    async def drop(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """As `Client.drop`."""
        return await self.call("drop", **names_of(jobs, batch))
