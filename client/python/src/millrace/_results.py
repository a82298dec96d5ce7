"""What a result consists of.

Made by client/python/tools/generate.py from the schemas: change those.
"""
from typing import Any, Dict, List, Optional

from ._error import MillraceError, error_of
from ._record import ListedRows, LogprobRows, Record, floats, ids


class JobCounts(Record):
    queued: int
    leased: int
    completed: int
    failed: int
    cancelled: int
    expired: int
    _FIELDS = {
        "queued": (0, None),
        "leased": (0, None),
        "completed": (0, None),
        "failed": (0, None),
        "cancelled": (0, None),
        "expired": (0, None),
    }


class ListedLogprobs(ListedRows):
    ids: Any
    logprobs: Any
    _FIELDS = {
        "ids": (None, ids),
        "logprobs": (None, floats),
    }


class TokenLogprobs(LogprobRows):
    top: int
    token: Any
    top_ids: Any
    top_logprobs: Any
    listed: Optional[ListedLogprobs]
    _FIELDS = {
        "top": (0, None),
        "token": (None, floats),
        "top_ids": (b"", ids),
        "top_logprobs": (b"", floats),
        "listed": (None, ListedLogprobs),
    }


class Choice(Record):
    index: int
    text: str
    tokens: Any
    finish_reason: str
    stop_string: Optional[str]
    stop_token: Optional[int]
    stop_sequence: Any
    logprobs: Optional[TokenLogprobs]
    reasoning: Optional[str]
    tool_calls: List[Any]
    reasoning_spans: Any
    tool_call_spans: Any
    _FIELDS = {
        "index": (None, None),
        "text": ("", None),
        "tokens": (b"", ids),
        "finish_reason": (None, None),
        "stop_string": (None, None),
        "stop_token": (None, None),
        "stop_sequence": (None, ids),
        "logprobs": (None, TokenLogprobs),
        "reasoning": (None, None),
        "tool_calls": ((), list),
        "reasoning_spans": (None, ids),
        "tool_call_spans": (None, ids),
    }


class Usage(Record):
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    _FIELDS = {
        "prompt_tokens": (0, None),
        "cached_tokens": (0, None),
        "completion_tokens": (0, None),
        "reasoning_tokens": (0, None),
    }


class EngineTimes(Record):
    queue_us: int
    first_token_us: int
    total_us: int
    _FIELDS = {
        "queue_us": (0, None),
        "first_token_us": (0, None),
        "total_us": (0, None),
    }


class EffectiveSettings(Record):
    model: str
    fingerprint: str
    math: str
    kv_policy: str
    kv: str
    kv_bytes_per_token: float
    kv_compression: float
    context_tokens: int
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    xtc_probability: float
    xtc_threshold: float
    seed: Optional[int]
    logit_bias: List[Any]
    repetition_penalty: float
    repetition_penalty_scope: str
    repetition_penalty_window: int
    presence_penalty: float
    presence_penalty_scope: str
    presence_penalty_window: int
    frequency_penalty: float
    frequency_penalty_scope: str
    frequency_penalty_window: int
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: List[Any]
    dry_breaker_ids: Any
    no_repeat_ngram_size: int
    allowed_token_ids: Any
    bad_words: List[Any]
    bad_word_ids: List[Any]
    markers: List[Any]
    _FIELDS = {
        "model": ("", None),
        "fingerprint": ("", None),
        "math": ("", None),
        "kv_policy": ("", None),
        "kv": ("", None),
        "kv_bytes_per_token": (0, None),
        "kv_compression": (0, None),
        "context_tokens": (0, None),
        "max_tokens": (0, None),
        "temperature": (1, None),
        "top_k": (0, None),
        "top_p": (1, None),
        "min_p": (0, None),
        "typical_p": (1, None),
        "xtc_probability": (0, None),
        "xtc_threshold": (0.1, None),
        "seed": (None, None),
        "logit_bias": ((), list),
        "repetition_penalty": (1, None),
        "repetition_penalty_scope": ("prompt+output", None),
        "repetition_penalty_window": (0, None),
        "presence_penalty": (0, None),
        "presence_penalty_scope": ("output", None),
        "presence_penalty_window": (0, None),
        "frequency_penalty": (0, None),
        "frequency_penalty_scope": ("output", None),
        "frequency_penalty_window": (0, None),
        "dry_multiplier": (0, None),
        "dry_base": (1.75, None),
        "dry_allowed_length": (2, None),
        "dry_penalty_last_n": (1024, None),
        "dry_sequence_breakers": ((), list),
        "dry_breaker_ids": (b"", ids),
        "no_repeat_ngram_size": (0, None),
        "allowed_token_ids": (b"", ids),
        "bad_words": ((), list),
        "bad_word_ids": ((), list),
        "markers": ((), list),
    }


class Generation(Record):
    choices: List[Choice]
    prompt: Any
    prompt_logprobs: Optional[TokenLogprobs]
    usage: Optional[Usage]
    times: Optional[EngineTimes]
    effective: Optional[EffectiveSettings]
    _FIELDS = {
        "choices": ((), [Choice]),
        "prompt": (None, ids),
        "prompt_logprobs": (None, TokenLogprobs),
        "usage": (None, Usage),
        "times": (None, EngineTimes),
        "effective": (None, EffectiveSettings),
    }


class Partial(Record):
    lease: int
    job: str
    custom_id: str
    attempt: int
    choice: int
    first_token: int
    tokens: Any
    text: str
    reasoning: str
    tool_calls: List[Any]
    _FIELDS = {
        "lease": (0, None),
        "job": ("", None),
        "custom_id": ("", None),
        "attempt": (0, None),
        "choice": (0, None),
        "first_token": (0, None),
        "tokens": (b"", ids),
        "text": ("", None),
        "reasoning": ("", None),
        "tool_calls": ((), list),
    }


class ResultFields(Record):
    """The end of one job: with a `result` where it is completed, or cancelled after some text,
    else with an `error`."""

    job: str
    custom_id: str
    model: str
    batch: str
    state: str
    error: Optional[MillraceError]
    warnings: List[Any]
    metadata: Dict[str, Any]
    attempts: int
    submitted_us: int
    ended_us: int
    counts: Optional[JobCounts]
    result: Optional[Generation]
    _FIELDS = {
        "job": ("", None),
        "custom_id": ("", None),
        "model": ("", None),
        "batch": ("", None),
        "state": (None, None),
        "error": (None, error_of),
        "warnings": ((), list),
        "metadata": ({}, dict),
        "attempts": (0, None),
        "submitted_us": (0, None),
        "ended_us": (0, None),
        "counts": (None, JobCounts),
        "result": (None, Generation),
    }
