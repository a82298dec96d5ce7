"""What a client is made from, and what its methods have in common."""
import uuid
from typing import Any, Dict, Iterable, Optional, Union

from ._codes import UsageError
from ._endpoint import Path, check_endpoint, default_endpoint, key_for
from ._link import LinkOptions, program_name
from ._mapping import MapOptions
from ._progress import Progress
from ._reader import Position
from ._submitter import Receipt

WINDOW = 10_000


def link_options(broker: Optional[str], key: Optional[Path], name: Optional[str],
                 connect_timeout_s: float, away_timeout_s: Optional[float]) -> LinkOptions:
    endpoint = broker or default_endpoint()
    check_endpoint(endpoint)
    return LinkOptions(endpoint, key_for(key, endpoint), name or program_name(),
                       connect_timeout_s, away_timeout_s)


def map_options(fields: Any, name: Optional[str], ordered: bool, window: int,
                progress: Progress) -> MapOptions:
    if window < 1:
        raise UsageError(f"a window of {window} jobs takes none", "give at least 1")
    stream = f"map-{name}" if name else f"map-{uuid.uuid4().hex}"
    return MapOptions(fields, stream, bool(name), ordered, window, progress.result)


def position_of(after: Any) -> Optional[Position]:
    """A position may be given as it is, or as the text that `str` made of it."""
    return Position.parse(after) if isinstance(after, str) else after


def names_of(jobs: Any, batch: str) -> Dict[str, Any]:
    """The body of a message that names jobs, by id or receipt, or a batch."""
    if (jobs is None) == (not batch):
        raise UsageError("give either jobs or a batch", "jobs=[ID, ...] or batch=NAME")
    if batch:
        return {"batch": batch}
    one_or_many: Iterable[Any] = [jobs] if isinstance(jobs, str) or hasattr(jobs, "job") else jobs
    return {"jobs": [getattr(job, "job", job) for job in one_or_many]}


def id_of(job: Union[str, Receipt]) -> str:
    return job if isinstance(job, str) else job.job
