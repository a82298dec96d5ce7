"""What a user may give as a job."""
import hashlib
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from ._codes import InvalidValueError
from ._frame import pack
from ._job import Job

Prompt = Union[str, Sequence[int], Sequence[Mapping[str, Any]], Job, Mapping[str, Any]]


def job_of(item: Any, fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The job for a text, a chat, token ids or a map of fields; `fields` count where it has none.

    >>> from millrace._jobs import job_of
    >>> job_of("The sea", {"max_tokens": 4})
    {'max_tokens': 4, 'prompt': 'The sea'}
    >>> job_of([{"role": "user", "content": "Hi"}], {})
    {'messages': [{'role': 'user', 'content': 'Hi'}]}
    >>> job_of([504, 3575], {})
    {'tokens': [504, 3575]}
    """
    if isinstance(item, str):
        own: Dict[str, Any] = {"prompt": item}
    elif isinstance(item, Mapping):
        own = dict(item)
    elif hasattr(item, "__len__") and hasattr(item, "__getitem__") and len(item):
        own = {"messages" if isinstance(item[0], Mapping) else "tokens": item}
    else:
        raise InvalidValueError(f"{item!r:.80} is no job",
                                "give a text, a list of messages, token ids, or a dict of fields")
    job = {**fields, **own}
    if isinstance(job.get("logit_bias"), Mapping):
        job["logit_bias"] = [[int(key), bias] for key, bias in job["logit_bias"].items()]
    return job


def named(job: Dict[str, Any], index: int, stream: str) -> Dict[str, Any]:
    """The job with the stream, and with an id that is the same whenever the same map runs again."""
    job["stream"] = stream
    if not job.get("id"):
        try:
            digest = hashlib.sha256(pack(job)).hexdigest()[:16]
        except InvalidValueError:
            digest = "none"  # it will be refused
        job["id"] = f"{stream}/{index}-{digest}"
    return job


def merged(job: Optional[Prompt], fields: Mapping[str, Any]) -> Dict[str, Any]:
    return job_of(job, fields) if job is not None else dict(fields)
