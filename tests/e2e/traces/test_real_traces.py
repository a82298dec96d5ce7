"""The spans of `millrace serve` and its engine, with the real model."""
import signal

import openai
from http_place import start_serve, until
from patience import PATIENCE_S
from receiver import PARENT, SPAN, one_span


def test_serve_and_its_engine_send_theirs(receiver, tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    process, url = start_serve(tmp_path / "state", "--traces", receiver.url)
    try:
        with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
            until(lambda: client.models.list().data, "model")
            client.completions.create(model="*", prompt="The sea", max_tokens=2,
                                      extra_headers={"traceparent": PARENT})
        job, text = one_span(receiver, "job"), one_span(receiver, "text_completion")
        request = one_span(receiver, "POST ")
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert (request.parent, job.parent, text.parent) == (SPAN, request.id, job.id)
    assert text.attributes["gen_ai.usage.output_tokens"] == 2
    assert [one.resource["service.name"] for one in (request, job, text)] == [
        "millrace-serve", "millrace-serve", "millrace-engine"]
