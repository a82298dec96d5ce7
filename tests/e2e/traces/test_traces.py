"""Spans of jobs, from a broker, an engine and the HTTP face, as a real receiver reads them."""
import re
import signal
import subprocess
import time
import urllib.request

import millrace
import pytest
from http_place import HELLO, program, until
from receiver import PARENT, SPAN, TRACE, one_span

QUIET = f"00-{TRACE}-{SPAN}-00"  # its spans are not recorded
INTERNAL, SERVER, CONSUMER = 1, 2, 5
STUB = ("--text", "one two three four", "--job-steps", "4")


def client_of(place):
    return millrace.Client(f"ipc://{place.sockets}/clients")


def metric(place, name):
    with urllib.request.urlopen(place.bound["metrics"]) as page:
        return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", page.read().decode(), re.M)[1])


def test_a_job_has_spans_of_the_broker_and_the_engine(make_place, receiver):
    place = make_place("--traces", receiver.url)
    place.start_engine("--traces", receiver.url, "--name", "first", *STUB)
    with client_of(place) as client:
        result = client.generate(
            HELLO, max_tokens=7, temperature=0.5, custom_id="mine", partials=True,
            metadata={"traceparent": PARENT, "tracestate": "vendor=1", "other": "kept"})
    assert result.metadata["traceparent"] == PARENT and result.metadata["other"] == "kept"
    job, chat = one_span(receiver, "job"), one_span(receiver, "chat stub")
    assert (job.trace, job.parent, job.kind, job.state) == (TRACE, SPAN, CONSUMER, "vendor=1")
    assert (chat.trace, chat.parent, chat.kind, chat.state) == (TRACE, job.id, INTERNAL, "vendor=1")
    names = [name for name, _ in job.events]
    assert names[:2] == ["queued", "leased"] and names.count("partial") <= 1
    assert dict(job.events)["leased"] == {"millrace.engine": "first", "millrace.attempt": 1}
    assert job.attributes["messaging.system"] == "millrace"
    assert job.attributes["messaging.message.id"] == result.job
    assert job.attributes["millrace.state"] == "completed"
    assert job.attributes["millrace.attempts"] == 1
    assert job.status.code == 0 and job.resource["service.name"] == "millrace-broker"
    told = chat.attributes
    assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.request.model"] == "stub"
    assert told["gen_ai.request.max_tokens"] == 7
    assert told["gen_ai.request.temperature"] == 0.5
    assert told["gen_ai.usage.input_tokens"] == result.usage.prompt_tokens
    assert told["gen_ai.usage.cache_read.input_tokens"] == result.usage.cached_tokens
    assert told["gen_ai.usage.output_tokens"] == result.usage.completion_tokens
    assert told["gen_ai.response.finish_reasons"] == [result.choices[0].finish_reason]
    assert told["gen_ai.response.id"] == result.job and told["millrace.custom_id"] == "mine"
    assert chat.resource["service.name"] == "stub_engine"
    assert job.start <= chat.start <= chat.end <= job.end


def test_only_jobs_that_are_sampled_have_spans(make_place, receiver):
    place = make_place("--traces", receiver.url)
    place.start_engine("--traces", receiver.url, *STUB)
    with client_of(place) as client:
        for metadata in ({}, {"traceparent": QUIET}, {"traceparent": "damaged"}):
            assert client.generate("Hello", metadata=metadata).ok
        assert client.generate("Hello", metadata={"traceparent": PARENT}).ok
    one_span(receiver, "job")
    one_span(receiver, "text_completion")
    place.close()  # sends what is left
    assert len(receiver.spans()) == 2


def test_the_environment_says_where_and_which(make_place, receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20secret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
    place = make_place()
    place.start_engine(*STUB)
    with client_of(place) as client:
        assert client.generate("Hello", metadata={"traceparent": QUIET}).ok
        assert client.generate("Hello again").ok
    job, text = one_span(receiver, "job"), one_span(receiver, "text_completion")
    assert job.parent == "" and (text.trace, text.parent) == (job.trace, job.id)
    assert job.resource["service.name"] == text.resource["service.name"] == "mine"
    assert {one["api-key"] for one in receiver.headers} == {"a secret"}


def test_a_request_over_http_has_a_span_above_those_of_its_job(make_place, receiver):
    place = make_place("--traces", receiver.url)
    place.start_engine("--traces", receiver.url, *STUB)
    status, body, headers = place.post("/v1/chat/completions", {"messages": HELLO},
                                       traceparent=PARENT, tracestate="vendor=1")
    assert status == 200
    request, job = one_span(receiver, "POST /v1/chat/completions"), one_span(receiver, "job")
    assert (request.trace, request.parent, request.kind) == (TRACE, SPAN, SERVER)
    assert (job.trace, job.parent, job.state) == (TRACE, request.id, "vendor=1")
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["http.request.method"] == "POST"
    assert request.attributes["gen_ai.response.id"] == headers["X-Request-Id"]
    assert one_span(receiver, "chat stub").parent == job.id
    with place.open("/v1/completions", {"prompt": "Hello", "stream": True},
                    traceparent=PARENT) as answer:
        assert answer.read().endswith(b"data: [DONE]\n\n")
    assert one_span(receiver, "POST /v1/completions").status.code == 0


def test_a_request_that_is_refused_or_fails_says_so(make_place, receiver):
    place = make_place("--traces", receiver.url)
    status, *_ = place.post("/v1/completions", {"prompt": "Hello", "n": 0}, traceparent=PARENT)
    assert status == 400
    request = one_span(receiver, "POST /v1/completions")
    assert request.attributes["http.response.status_code"] == 400
    assert request.attributes["error.type"] == "invalid_value" and request.status.code == 0
    status, *_ = place.post("/v1/chat/completions", {"messages": HELLO}, traceparent=PARENT)
    request = one_span(receiver, "POST /v1/chat/completions")
    assert status == 503 and request.status.code == 2


def test_a_request_with_a_key_may_come_again_in_another_span(make_place, receiver):
    """A client that tries again has another span each time; the job is the same."""
    place = make_place("--traces", receiver.url)
    place.start_engine(*STUB)
    ids = set()
    for span in (SPAN, "00f067aa0ba902b7"):
        status, _, headers = place.post(
            "/v1/completions", {"prompt": "Hello"}, traceparent=f"00-{TRACE}-{span}-01",
            **{"Idempotency-Key": "one"})
        assert status == 200
        ids.add(headers["X-Request-Id"])
    assert ids == {"key-one"}
    assert until(lambda: len(receiver.spans("POST ")) == 2, "both requests")
    assert one_span(receiver, "job").parent == receiver.spans("POST ")[0].id


def test_a_job_that_is_given_back(make_place, receiver):
    place = make_place("--traces", receiver.url, "--lease-ms", "1000")
    engine = place.start_engine("--traces", receiver.url, "--step-ms", "3600000")
    with client_of(place) as client:
        job = client.submit("Hello", metadata={"traceparent": PARENT}, max_attempts=5)
        until(lambda: client.call("jobs_request", job=job.job)["jobs"][0]["state"] == "leased",
              "hand-out")
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        place.start_engine("--traces", receiver.url, *STUB)
        assert client.wait(job).ok
    span = one_span(receiver, "job")
    assert [name for name, _ in span.events] == ["queued", "leased", "given_back", "leased"]
    assert span.attributes["millrace.attempts"] == 2


def test_jobs_that_end_without_an_engine(make_place, receiver):
    place = make_place("--traces", receiver.url)
    metadata = {"traceparent": PARENT}
    with client_of(place) as client:
        client.cancel(jobs=[client.submit("Hello", metadata=metadata).job])
        span = one_span(receiver, "job")
        assert span.attributes["error.type"] == "cancelled" and span.status.code == 0
        soon = int((time.time() + 0.5) * 1e6)
        job = client.submit("Hello again", metadata=metadata, deadline_us=soon)
        assert client.wait(job).error.code == "expired"
        until(lambda: len(receiver.spans("job")) == 2, "second span")
    span = receiver.spans("job")[1]
    assert span.attributes["error.type"] == "expired" and span.status.code == 2


def test_a_restart_of_the_broker_keeps_the_span(make_place, receiver):
    place = make_place("--traces", receiver.url)
    with client_of(place) as client:
        job = client.submit("Hello", metadata={"traceparent": PARENT})
        place.broker.kill()
        place.broker.wait()
        place.start_broker()
        place.start_engine("--traces", receiver.url, *STUB)
        assert client.wait(job).ok
    span = one_span(receiver, "job")
    assert one_span(receiver, "text_completion").parent == span.id
    assert [name for name, _ in span.events] == ["queued", "leased"]


@pytest.mark.parametrize("status", [None, 400, 503, "away"])
def test_a_receiver_that_takes_nothing_costs_nothing_but_spans(make_place, make_receiver, status,
                                                               monkeypatch):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    receiver = make_receiver(200 if status == "away" else status)
    url = receiver.url
    if status == "away":
        receiver.close()
    place = make_place("--traces", url)
    place.start_engine("--traces", url, *STUB)
    with client_of(place) as client:
        results = list(client.map([f"Hello {i}" for i in range(50)],
                                  metadata={"traceparent": PARENT}))
        assert [one.ok for one in results] == [True] * 50
        until(lambda: metric(place, "millrace_spans_dropped_total") > 0, "drop")
    assert metric(place, "millrace_spans_sent_total") == 0
    place.broker.terminate()
    assert place.broker.wait(60) == 0
    log = (place.folder / "broker.log").read_text()
    assert log.count("spans are not delivered") <= 1 and log.count("spans were dropped") <= 1


def test_a_url_that_cannot_be_used_is_refused_at_the_start(tmp_path):
    for words in (["millrace-broker", "--ledger", tmp_path / "l"], ["stub_engine"]):
        done = subprocess.run([program(words[0]), *words[1:], "--traces", "here:4318"], text=True,
                              capture_output=True, check=False)
        assert done.returncode != 0 and "--traces here:4318" in done.stderr, done.stderr
