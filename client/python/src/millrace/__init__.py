"""Millrace generates text in bulk and never loses a job. This is its client.

>>> import millrace
>>> with millrace.Client() as client:
...     for result in client.map(["The sea is", "The sky is"], max_tokens=16):
...         print(result.text)
a stub's answer
a stub's answer

`Client` blocks, `AsyncClient` is for asyncio, and `run` starts a broker and an engine for a
notebook. `Output` keeps your output and your place in a stream together.
"""
from . import errors, tables
from ._error import MillraceError, error_of
from ._flows import Summary
from ._job import Job
from ._reader import Position
from ._result import Result
from ._results import Choice, Generation, JobCounts, Partial, TokenLogprobs, Usage
from ._states import BatchState, EngineInfo, Status
from ._submitter import Receipt
from .aio import AsyncClient
from .client import Client
from .local import LocalClient, run
from .output import Output

__version__ = "0.1.0"
__all__ = ["AsyncClient", "BatchState", "Choice", "Client", "EngineInfo", "Generation", "Job",
           "JobCounts", "LocalClient", "MillraceError", "Output", "Partial", "Position", "Receipt",
           "Result", "Status", "Summary", "TokenLogprobs", "Usage", "error_of", "errors", "run",
           "tables"]
