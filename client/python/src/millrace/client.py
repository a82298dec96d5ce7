"""The client for programs that block; `aio.py` has the one for asyncio."""
from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping

from . import _flows, tables
from ._endpoint import Path
from ._flow import finish, iterate
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
    from typing_extensions import Unpack

    from ._job import Job


class Client:
    """A session with a broker. Any thread may use it; a process made by fork needs its own.

    `broker` is the endpoint for clients, by default `$MILLRACE_BROKER` or the unix socket of a
    broker that this user has started; of several brokers on one database all, with commas between
    them, of which it uses the next when one is away. `key` is a key file (`$MILLRACE_KEY`), where
    the broker has keys. The broker has `connect_timeout_s` to answer at first. If it goes away
    later, everything waits for it and goes on when it is back; after `away_timeout_s` without it
    `UnreachableError` is raised (None: never).

    >>> client = millrace.Client()
    >>> receipt = client.submit("The sea is", max_tokens=16, stream="seas")
    >>> receipt.state
    'queued'
    >>> client.wait(receipt).text
    "a stub's answer"
    >>> [result.job == receipt.job for result in client.results("seas", follow=False)]
    [True]
    >>> client.close()
    """

    def __init__(self, broker: str | None = None, *, key: Path | None = None,
                 name: str | None = None, connect_timeout_s: float = 10.0,
                 away_timeout_s: float | None = 300.0) -> None:
        self._link = Link(link_options(broker, key, name, connect_timeout_s, away_timeout_s))
        self._leaving = Leaving()
        self._finalizer = weakref.finalize(self, partial(self._leaving.close, self._link))
        try:
            self._link.ready.result()
        except BaseException:
            self.close()
            raise

    @property
    def welcome(self) -> Welcome:
        """What the broker told about itself."""
        return self._link.welcome

    @property
    def endpoint(self) -> str:
        return self._link.options.endpoint

    def close(self) -> None:
        """Ends the session. Jobs that are submitted run on."""
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def call(self, kind: str, **body: Any) -> Dict[str, Any]:
        """Any question of the protocol (schemas/docs/messages.md), and the body of its answer.

        >>> client.call("batches_request")["batches"]
        []
        """
        answer: Dict[str, Any] = finish(_flows.one_answer(self._link.ask(kind, body)))[1]
        return answer

    # Jobs

    def submit(self, job: Prompt | None = None, /, **fields: Unpack[Job]) -> Receipt:
        """Stores one job on the broker's disk, and returns when it is there. Raises its refusal.

        `job` is a text, a list of messages, token ids, or a dict of fields; further fields are
        those of `millrace.Job`. A job that is submitted again under its `id`, or again without
        one, is known and runs once.

        >>> client.submit("The sea", id="sea-1").known, client.submit("The sea", id="sea-1").known
        (False, True)
        >>> client.submit("The sky", id="sea-1")
        Traceback (most recent call last):
            ...
        millrace._codes.ConflictError: conflict: ...
        """
        receipt: Receipt = finish(_flows.submit_one(self._link, merged(job, fields)))
        return receipt

    def submit_many(self, jobs: Iterable[Prompt], /, *,
                    on_receipt: Callable[[Receipt], Any] | None = None, progress: Any = False,
                    **fields: Unpack[Job]) -> Summary:
        """Submits the jobs of an iterable, which is read only as fast as the broker stores them.

        Each job is acknowledged or refused by itself: `on_receipt` is called for each, and the
        summary counts them. `fields` count for the jobs that do not give them.

        >>> summary = client.submit_many((f"Sea {i}" for i in range(2000)), stream="many")
        >>> summary
        Summary(stored=2000, known=0, refused=0)
        """
        bar = Progress(progress, jobs, "job")

        def take(receipt: Receipt) -> None:
            bar.receipt(receipt)
            if on_receipt is not None:
                on_receipt(receipt)

        try:
            summary: Summary = finish(_flows.submit_many(self._link, jobs, fields, take))
        finally:
            bar.close()
        return summary

    def submit_each(self, jobs: Iterable[Prompt], /, **fields: Unpack[Job]) -> Iterator[Receipt]:
        """As `submit_many`, but an iterator over the receipts; it must be read for jobs to go.

        >>> [receipt.ok for receipt in client.submit_each(["a", {"prompt": "b", "n": 0}])]
        [True, False]
        """
        return iterate(_flows.submit_each(self._link, jobs, fields), keep=self)

    def wait(self, job: str | Receipt) -> Result:
        """The result of one job, as soon as it has ended."""
        found: Result = finish(_flows.wait_for(self._link, id_of(job)))
        return found

    def generate(self, job: Prompt | None = None, /, **fields: Unpack[Job]) -> Result:
        """Submits one job and waits for its result, whose `text` raises an error that it has.

        >>> client.generate("The sea is").text
        "a stub's answer"
        """
        # The map runs to its end: one that is left takes back what has yet to end.
        [result] = self.map([job_of(merged(job, fields), {})])
        return result

    def map(self, prompts: Iterable[Prompt], /, *, ordered: bool = True, name: str | None = None,
            window: int = WINDOW, progress: Any = False,
            **fields: Unpack[Job]) -> Iterator[Result]:
        """The results of prompts: in their order, or as they finish (`ordered=False`).

        One bad prompt does not end the others: its result has an `error`. `result.index` and
        `result.item` tell which prompt it was. At most `window` prompts are open at once, so that
        memory stays flat however many there are.

        A map that is left before its end cancels its jobs and removes its results, which nobody
        else knows. With keys, that needs one that may do both.

        With a `name`, all stays, and the same map can run again, in another process too. Nothing
        is computed twice: what has ended is taken from the broker.

        >>> [result.text for result in client.map(["The sea", "The sky"], max_tokens=8)]
        ["a stub's answer", "a stub's answer"]
        >>> sorted(result.item for result in client.map(["b", "a"], ordered=False))
        ['a', 'b']
        >>> [result.ok for result in client.map(["The sea", {"prompt": "The sky", "n": 0}])]
        [True, False]
        """
        bar = Progress(progress, prompts, "prompt")
        options = map_options(fields, name, ordered, window, bar)
        try:
            yield from iterate(map_jobs(self._link, prompts, options, self._leaving))
        finally:
            bar.close()

    def map_table(self, table: Any, prompt: str = "prompt", *, prefix: str = "",
                  **options: Any) -> Any:
        """A table of pandas, polars or `datasets` with the answers to its column `prompt` in new
        columns `text`, `finish_reason` and `error`; `options` are those of `map`."""
        return tables.map_table(self, table, prompt, prefix=prefix, **options)

    # Results

    def results(self, stream: str = "results", *, after: Position | str | None = None,
                from_: int = 1, cursor: str = "", follow: bool = True, batch: str = "",
                limit: int | None = None, skip_trimmed: bool = False) -> Iterator[Result]:
        """The results of a stream in the order in which the jobs ended, without gaps or doubles.

        It waits for further ones; with `follow=False` it ends where the stream does, and after
        `limit` results. Restarts of the broker do not end it. To go on after a restart of your
        own program, either store `result.position` with your output and give it as `after` (or let
        `millrace.Output` do both), or let the broker keep your place under a name (`cursor`): it
        moves when you ask for the next result, so that one may come twice after a crash.

        A job that fails and is retried gives a second result, which replaces the first. Without a
        place to go on from, it begins at the number `from_`. Results that the broker has deleted
        already raise `TrimmedError`, unless you skip them. Under another ledger
        `EpochChangedError` is raised.

        >>> _ = client.submit_many(["a", "b", "c"], stream="letters")
        >>> first = next(client.results("letters"))
        >>> [r.number for r in client.results("letters", after=first.position, limit=2)]
        [2, 3]
        """
        asked = Reading(stream, position_of(after), from_, cursor, follow, batch, limit,
                        skip_trimmed)
        return iterate(_flows.read(self._link, asked), keep=self)

    def partials(self, stream: str = "results") -> Iterator[Partial]:
        """The texts of running jobs with `partials=True`, piece by piece, for display."""
        return iterate(_flows.partials(self._link, stream), keep=self)

    # What the broker holds

    def status(self, *, job: str = "", batch: str = "", stream: str = "") -> Status:
        """How far a job, a batch or a stream is; without a name, the whole broker.

        >>> client.status().engines[0].model
        'stub'
        """
        named = {"job": job, "batch": batch, "stream": stream}
        return Status(self.call("status_request", **{k: v for k, v in named.items() if v}))

    def batches(self) -> List[BatchState]:
        """All batches, by name."""
        found: List[BatchState] = []
        more = True
        while more:
            answer = self.call("batches_request", after=found[-1].batch if found else "")
            found += [BatchState(one) for one in answer.get("batches", ())]
            more = answer.get("more", False)
        return found

    def close_batch(self, batch: str, metadata: Mapping[str, str] | None = None) -> None:
        """The batch takes no further jobs; when all have ended the stream `batches` tells it."""
        self.call("change_batch", batch=batch, close=True, metadata=metadata or {})

    def counts(self, batch: str) -> JobCounts:
        """The jobs of a batch by state."""
        return JobCounts(self.call("status_request", batch=batch).get("counts", {}))

    def cancel(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """Ends jobs, given by id or receipt, or all of a batch. Gives counts by outcome.

        >>> client.cancel(["nosuch"])["unknown"]
        1
        """
        return self.call("cancel", **names_of(jobs, batch))

    def retry(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """Queues failed jobs again. Gives counts by outcome."""
        return self.call("retry", **names_of(jobs, batch))

    def drop(self, jobs: Any = None, *, batch: str = "") -> Dict[str, int]:
        """Forgets failed jobs. Gives counts by outcome."""
        return self.call("drop", **names_of(jobs, batch))
