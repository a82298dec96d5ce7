"""What a user may give as a job."""
import hashlib
from contextlib import suppress
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
    job = {**fields, **_own(item)}
    if isinstance(job.get("logit_bias"), Mapping):
        job["logit_bias"] = [[_token(key), bias] for key, bias in job["logit_bias"].items()]
    return job


def _own(item: Any) -> Dict[str, Any]:
    """The fields that the item itself gives."""
    if isinstance(item, str):
        return {"prompt": item}
    if isinstance(item, Mapping):
        return dict(item)
    if hasattr(item, "__len__") and hasattr(item, "__getitem__"):
        with suppress(LookupError, TypeError):  # it is empty, or counts from elsewhere than 0
            return {"messages" if isinstance(item[0], Mapping) else "tokens": item}
    raise InvalidValueError(f"{item!r:.80} is no job",
                            "give a text, a list of messages, token ids, or a dict of fields")


def _token(key: Any) -> int:
    try:
        return int(key)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"logit_bias has the key {key!r:.80}, which is no token id",
                                "use ids of the model's vocabulary, such as {504: -100}") from None


def named(job: Dict[str, Any], index: int, stream: str) -> Dict[str, Any]:
    """The job with the stream, and with an id that is the same whenever the same map runs again."""
    job["stream"] = stream
    if job.get("id") and not isinstance(job["id"], str):
        raise InvalidValueError(f"the id {job['id']!r:.80} is no text", "give a str, or no id")
    if not job.get("id"):
        try:
            job["id"] = f"{stream}/{index}-{hashlib.sha256(pack(job)).hexdigest()[:16]}"
        except InvalidValueError:
            job["id"] = nameless(index, stream)
    return job


def nameless(index: int, stream: str) -> str:
    """The id of a job that will be refused."""
    return f"{stream}/{index}-none"


def merged(job: Optional[Prompt], fields: Mapping[str, Any]) -> Dict[str, Any]:
    return job_of(job, fields) if job is not None else dict(fields)
