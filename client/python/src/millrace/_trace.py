"""The trace that a job belongs to: the span that is current in the caller's OpenTelemetry."""
import sys
from typing import Any, Dict, Mapping

FIELDS = ("traceparent", "tracestate")


def traced(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """The job with the current span in its metadata. It is as it was where the program has not
    loaded OpenTelemetry or is in no span, or where the job names a trace itself.

    A job's id and its comparison with known jobs leave the trace out, so the same job that is
    submitted again, in another span, is known.
    """
    if "opentelemetry" not in sys.modules:
        return job  # nobody can have begun a span
    metadata = job.get("metadata")
    own: Mapping[str, Any] = {} if metadata is None else metadata
    if not isinstance(own, Mapping) or any(name in own for name in FIELDS):
        return job
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return job
    carrier: Dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    found = {name: carrier[name] for name in FIELDS if carrier.get(name)}
    return {**job, "metadata": {**own, **found}} if found else job
