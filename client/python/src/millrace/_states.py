"""What the answers to questions consist of.

Made by client/python/tools/generate.py from the schemas: change those.
"""
from typing import Any, Dict, List, Optional

from ._error import MillraceError, error_of
from ._record import Record
from ._results import JobCounts


class SuggestedSampling(Record):
    temperature: Optional[float]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    xtc_probability: Optional[float]
    xtc_threshold: Optional[float]
    repetition_penalty: Optional[float]
    repetition_penalty_window: Optional[int]
    _FIELDS = {
        "temperature": (None, None),
        "top_k": (None, None),
        "top_p": (None, None),
        "min_p": (None, None),
        "xtc_probability": (None, None),
        "xtc_threshold": (None, None),
        "repetition_penalty": (None, None),
        "repetition_penalty_window": (None, None),
    }


class EngineInfo(Record):
    name: str
    model: str
    fingerprint: str
    math: str
    kv_policy: str
    kv: str
    kv_bytes_per_token: float
    kv_compression: float
    context_tokens: int
    label: str
    layer_path: str
    kv_memory: str
    kv_policies: List[Any]
    suggested_sampling: Optional[SuggestedSampling]
    suggested_sampling_error: str
    leases: int
    rows: int
    tokens_per_second: float
    silent_ms: int
    max_rows: int
    waiting_jobs: int
    kv_used_tokens: int
    kv_pool_tokens: int
    kv_used_bytes: int
    kv_pool_bytes: int
    prefix_tokens: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    prompt_tokens_per_second: float
    completion_tokens_per_second: float
    _FIELDS = {
        "name": ("", None),
        "model": ("", None),
        "fingerprint": ("", None),
        "math": ("", None),
        "kv_policy": ("", None),
        "kv": ("", None),
        "kv_bytes_per_token": (0, None),
        "kv_compression": (0, None),
        "context_tokens": (0, None),
        "label": ("", None),
        "layer_path": ("", None),
        "kv_memory": ("", None),
        "kv_policies": ((), list),
        "suggested_sampling": (None, SuggestedSampling),
        "suggested_sampling_error": ("", None),
        "leases": (0, None),
        "rows": (0, None),
        "tokens_per_second": (0, None),
        "silent_ms": (0, None),
        "max_rows": (0, None),
        "waiting_jobs": (0, None),
        "kv_used_tokens": (0, None),
        "kv_pool_tokens": (0, None),
        "kv_used_bytes": (0, None),
        "kv_pool_bytes": (0, None),
        "prefix_tokens": (0, None),
        "prompt_tokens": (0, None),
        "cached_tokens": (0, None),
        "completion_tokens": (0, None),
        "prompt_tokens_per_second": (0, None),
        "completion_tokens_per_second": (0, None),
    }


class TenantQueue(Record):
    tenant: str
    queued: int
    queued_tokens: int
    leased: int
    leased_tokens: int
    oldest_ms: Optional[int]
    paused: bool
    _FIELDS = {
        "tenant": (None, None),
        "queued": (0, None),
        "queued_tokens": (0, None),
        "leased": (0, None),
        "leased_tokens": (0, None),
        "oldest_ms": (None, None),
        "paused": (False, None),
    }


class KeepLimits(Record):
    age_s: Optional[int]
    bytes: Optional[int]
    cursor_age_s: Optional[int]
    _FIELDS = {
        "age_s": (None, None),
        "bytes": (None, None),
        "cursor_age_s": (None, None),
    }


class StreamState(Record):
    stream: str
    first: int
    high: int
    bytes: int
    cursors: int
    set: Optional[KeepLimits]
    applied: Optional[KeepLimits]
    _FIELDS = {
        "stream": (None, None),
        "first": (1, None),
        "high": (0, None),
        "bytes": (0, None),
        "cursors": (0, None),
        "set": (None, KeepLimits),
        "applied": (None, KeepLimits),
    }


class CursorState(Record):
    cursor: str
    number: int
    moved_us: int
    _FIELDS = {
        "cursor": (None, None),
        "number": (0, None),
        "moved_us": (0, None),
    }


class JobInfo(Record):
    job: str
    custom_id: str
    model: str
    stream: str
    batch: str
    state: str
    priority: int
    attempts: int
    failures: int
    max_attempts: int
    suspect: bool
    submitted_us: int
    not_before_us: Optional[int]
    paused: bool
    deadline_us: Optional[int]
    ended_us: Optional[int]
    number: int
    engine: str
    error: Optional[MillraceError]
    _FIELDS = {
        "job": (None, None),
        "custom_id": ("", None),
        "model": ("", None),
        "stream": ("", None),
        "batch": ("", None),
        "state": (None, None),
        "priority": (0, None),
        "attempts": (0, None),
        "failures": (0, None),
        "max_attempts": (0, None),
        "suspect": (False, None),
        "submitted_us": (0, None),
        "not_before_us": (None, None),
        "paused": (False, None),
        "deadline_us": (None, None),
        "ended_us": (None, None),
        "number": (0, None),
        "engine": ("", None),
        "error": (None, error_of),
    }


class BatchState(Record):
    batch: str
    counts: Optional[JobCounts]
    created_us: int
    closed: bool
    finished_us: Optional[int]
    paused: bool
    number: int
    stream: str
    first: int
    metadata: Dict[str, Any]
    jobs_per_second: float
    eta_s: Optional[int]
    _FIELDS = {
        "batch": (None, None),
        "counts": (None, JobCounts),
        "created_us": (0, None),
        "closed": (False, None),
        "finished_us": (None, None),
        "paused": (False, None),
        "number": (0, None),
        "stream": ("", None),
        "first": (0, None),
        "metadata": ({}, dict),
        "jobs_per_second": (0, None),
        "eta_s": (None, None),
    }


class Status(Record):
    """Fills the fields that were asked for; the others have their defaults."""

    counts: Optional[JobCounts]
    state: Optional[str]
    attempts: int
    job_stream: str
    job_batch: str
    job_number: int
    job_waits: str
    epoch: str
    first: int
    high: int
    engines: List[EngineInfo]
    draining: bool
    paused: bool
    paused_models: List[Any]
    refuses: str
    queues: List[TenantQueue]
    more_queues: bool
    _FIELDS = {
        "counts": (None, JobCounts),
        "state": (None, None),
        "attempts": (0, None),
        "job_stream": ("", None),
        "job_batch": ("", None),
        "job_number": (0, None),
        "job_waits": ("", None),
        "epoch": ("", None),
        "first": (0, None),
        "high": (0, None),
        "engines": ((), [EngineInfo]),
        "draining": (False, None),
        "paused": (False, None),
        "paused_models": ((), list),
        "refuses": ("", None),
        "queues": ((), [TenantQueue]),
        "more_queues": (False, None),
    }


class Welcome(Record):
    """The session is open."""

    broker: str
    software: str
    version: int
    capabilities: List[Any]
    frame_bytes: int
    job_bytes: int
    jobs_per_submit: int
    heartbeat_ms: int
    lease_ms: int
    hang_ms: int
    doorbell: str
    doorbell_prefix: str
    _FIELDS = {
        "broker": ("", None),
        "software": ("", None),
        "version": (1, None),
        "capabilities": ((), list),
        "frame_bytes": (67108864, None),
        "job_bytes": (8388608, None),
        "jobs_per_submit": (10000, None),
        "heartbeat_ms": (1000, None),
        "lease_ms": (15000, None),
        "hang_ms": (60000, None),
        "doorbell": ("", None),
        "doorbell_prefix": ("", None),
    }
