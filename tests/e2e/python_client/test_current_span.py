"""Jobs that are submitted inside a span of OpenTelemetry."""
import asyncio
import sys

import millrace
import pytest
from millrace._trace import traced
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

IDS = (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def span(number=IDS[1], state=()):
    context = SpanContext(IDS[0], number, False, TraceFlags(TraceFlags.SAMPLED),
                          TraceState(list(state)))
    return trace.use_span(NonRecordingSpan(context))


def test_a_job_takes_the_current_span_along(client):
    with span(state=[("vendor", "1")]):
        result = client.generate("The sea", metadata={"mine": "kept"})
        [mapped] = client.map(["The sky"])
        summary = client.submit_many(["The sun"], stream="s")
    assert result.metadata == {"mine": "kept", "traceparent": PARENT, "tracestate": "vendor=1"}
    assert mapped.metadata["traceparent"] == PARENT and summary.stored == 1
    assert next(client.results("s")).metadata["traceparent"] == PARENT


def test_tasks_of_asyncio_have_spans_of_their_own(client):
    async def one(number):
        async with millrace.AsyncClient() as its:
            with span(number):
                return await its.generate("The sea", seed=number)

    async def both():
        return await asyncio.gather(one(1), one(2))

    told = [result.metadata["traceparent"] for result in asyncio.run(both())]
    assert [text.split("-")[2] for text in told] == [f"{number:016x}" for number in (1, 2)]


@pytest.mark.parametrize("job", [{"prompt": "The sea"}, {"id": "named", "prompt": "The sea"},
                                 {"prompt": "The sea", "metadata": {"mine": "1"}}])
def test_the_same_job_in_another_span_is_known(client, job):
    plain = client.submit(job)
    for number in (1, 2):
        with span(number):
            receipt = client.submit(job)
        assert receipt.known and receipt.job == plain.job


def test_a_job_stays_as_it_is(monkeypatch):
    job = {"prompt": "x"}
    assert traced(job) is job  # there is no span
    with span():
        for own in ({"metadata": {"traceparent": "mine"}}, {"metadata": 7}):
            assert traced(own) is own
        assert traced(job)["metadata"] == {"traceparent": PARENT} and job == {"prompt": "x"}
        for name in [one for one in sys.modules if one.partition(".")[0] == "opentelemetry"]:
            monkeypatch.delitem(sys.modules, name)
        assert traced(job) is job  # nobody has loaded OpenTelemetry
