"""The unmodified openai package against a broker with a stub engine."""
import json
import threading
import time

import openai
import pytest
from http_place import HELLO, until


def test_chat(client):
    answer = client.chat.completions.create(model="stub", messages=HELLO)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.model == "stub" and abs(answer.created - time.time()) < 3600
    choice, = answer.choices
    assert choice.index == 0 and choice.finish_reason == "stop"
    assert choice.message.role == "assistant"
    assert choice.message.content == "one two three four"
    assert answer.usage.prompt_tokens == 1 and answer.usage.completion_tokens == 4
    assert answer.usage.total_tokens == 5


def test_any_model_where_none_is_named(place):
    status, body, headers = place.post("/v1/chat/completions", {"messages": HELLO})
    assert status == 200 and body["model"] == "stub"
    assert headers["X-Request-Id"] in body["id"]
    for chat in ({"messages": HELLO}, {"messages": HELLO, "model": "*"}):
        with place.open("/v1/chat/completions", {**chat, "stream": True}) as stream:
            events = [x[6:] for x in stream.read().decode().splitlines() if x.startswith("data: {")]
        assert {json.loads(x)["model"] for x in events} == {"stub"}


def test_chat_stream(client):
    chunks = list(client.chat.completions.create(
        model="stub", messages=HELLO, stream=True, stream_options={"include_usage": True}))
    assert {x.object for x in chunks} == {"chat.completion.chunk"}
    assert len({x.id for x in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [x.choices[0].delta.content for x in chunks if x.choices and
              x.choices[0].delta.content]
    assert "".join(pieces) == "one two three four"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 4


def test_pieces_come_while_the_job_runs(make_place):
    place = make_place()
    place.start_engine("--text", "one two three four", "--job-steps", "4", "--step-ms", "300")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none") as client:
        stream = client.chat.completions.create(model="stub", messages=HELLO, stream=True)
        first = next(x for x in stream if x.choices[0].delta.content)
        assert place.jobs("leased"), "the job has ended before its first piece came"
        rest = [x.choices[0].delta.content or "" for x in stream]
        assert first.choices[0].delta.content + "".join(rest) == "one two three four"


def test_completion(client):
    answer = client.completions.create(model="stub", prompt="Once", max_tokens=8)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert answer.choices[0].text == "one two three four"
    assert answer.usage.completion_tokens == 4


def test_completion_stream(client):
    chunks = list(client.completions.create(model="stub", prompt="Once", stream=True))
    assert "".join(x.choices[0].text for x in chunks) == "one two three four"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_several_prompts(client):
    answer = client.completions.create(model="stub", prompt=["a", "b", "c"], n=2)
    assert [x.index for x in answer.choices] == list(range(6))
    assert answer.usage.completion_tokens == 24
    chunks = list(client.completions.create(model="stub", prompt=["a", "b"], stream=True))
    texts = {0: "", 1: ""}
    for chunk in chunks:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {0: "one two three four", 1: "one two three four"}


def test_several_choices(client):
    answer = client.chat.completions.create(model="stub", messages=HELLO, n=3)
    assert [x.index for x in answer.choices] == [0, 1, 2]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="stub", messages=HELLO, n=3, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == ["one two three four"] * 3


def test_many_choices_that_end_at_once(client):
    """Their last events are more than a stream's queue holds, and come in one message."""
    ended = 0
    for chunk in client.completions.create(model="stub", prompt=["a"] * 20, n=128, stream=True):
        ended += chunk.choices[0].finish_reason == "stop"
    assert ended == 20 * 128


def test_models(client):
    model, = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("stub", "model", "millrace")
    assert client.models.retrieve("stub").id == "stub"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other/model")
    assert caught.value.code == "unknown_model"


def test_a_model_that_no_engine_serves(client, place):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-x", messages=HELLO)
    assert caught.value.code == "unknown_model" and "gpt-x" in str(caught.value)
    assert not place.jobs(), "the request was submitted"


def test_bad_parameters(client):
    for field, value in (("temperature", -1), ("max_tokens", "many"), ("top_p", 2), ("n", 1000)):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="stub", messages=HELLO,
                                           extra_body={field: value})
        assert caught.value.type == "invalid_request_error", field
        assert caught.value.param == field, caught.value.body
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="stub", messages=[])
    assert "messages" in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff", b'{"a":1,"a":2}'])
def test_bodies_that_are_no_request(place, body):
    status, answer, _ = place.post("/v1/chat/completions", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error" and answer["error"]["message"]


def test_other_addresses(place):
    assert place.get("/v1/nothing")[0] == 404
    status, answer = place.get("/v1/chat/completions")
    assert status == 405 and "POST" in answer["error"]["hint"]
    told = place.post("/completion", {"prompt": "Once", "n_predict": 4})[1]["error"]
    assert told["hint"] == "the address is /v1/completions"
    hint = place.get("/slots")[1]["error"]["hint"]
    assert all(path in hint for path in ("/v1/chat/completions", "/health")) and ".js" not in hint
    assert place.get("/health") == (200, {"status": "ok"})
    assert place.get("/version")[1]["version"]


def test_no_engine(make_place):
    place = make_place()
    assert place.get("/ready")[0] == 503
    status, answer, headers = place.post("/v1/chat/completions", {"messages": HELLO})
    assert status == 503 and "no engine" in answer["error"]["message"]
    assert int(headers["Retry-After"]) >= 1
    engine = place.start_engine()
    assert place.get("/ready") == (200, {"status": "ready", "engines": 1})
    engine.terminate()
    until(lambda: place.get("/ready")[0] == 503, "end of the engine")


def test_a_request_that_takes_too_long(make_place):
    place = make_place("--http-timeout", "1")
    place.start_engine("--step-ms", "60000")
    status, answer, _ = place.post("/v1/chat/completions", {"messages": HELLO})
    assert status in (408, 504) and answer["error"]["code"] in ("expired", "timed_out")
    until(lambda: not place.jobs("leased") and not place.jobs("queued"), "end of the job")


def test_a_closed_connection_cancels_its_job(make_place):
    place = make_place()
    place.start_engine("--step-ms", "200", "--job-steps", "1000")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="stub", messages=HELLO, timeout=1)
        until(lambda: len(place.jobs("cancelled")) == 1, "cancelled job")
        with client.chat.completions.create(model="stub", messages=HELLO, stream=True) as stream:
            next(iter(stream))
        until(lambda: len(place.jobs("cancelled")) == 2, "cancelled job")


def test_an_idempotency_key_gives_the_same_job(make_place):
    place = make_place()
    place.start_engine("--step-ms", "100", "--job-steps", "20", "--text", "kept")
    body = {"messages": HELLO, "model": "stub"}
    key = {"Idempotency-Key": "order-66"}
    connection = place.connect()
    text = json.dumps(body).encode()
    head = ("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Idempotency-Key: order-66\r\nContent-Length: {len(text)}\r\n\r\n")
    connection.sendall(head.encode() + text)
    until(lambda: place.jobs("leased"), "running job")
    connection.close()
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(
        place.post("/v1/chat/completions", body, **key))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.append(place.post("/v1/chat/completions", body, **key))  # of a job that has ended
    assert [x[0] for x in answers] == [200] * 4
    assert len({x[1]["id"] for x in answers}) == 1
    assert {x[1]["choices"][0]["message"]["content"] for x in answers} == {"kept"}
    assert len(place.jobs()) == 1
    other = {**body, "temperature": 0.5}
    status, answer, _ = place.post("/v1/chat/completions", other, **key)
    assert (status, answer["error"]["code"]) == (409, "conflict")
    assert answer["error"]["hint"] == "send it with another Idempotency-Key"
    assert place.post("/v1/chat/completions", body, **{"Idempotency-Key": "a b"})[0] == 400


def test_a_key_with_and_without_a_stream(place):
    def ask(stream, key):
        header = {"Idempotency-Key": key}
        if not stream:
            status, body, _ = place.post("/v1/chat/completions", {"messages": HELLO}, **header)
            assert status == 200, body
            return body["choices"][0]["message"]["content"]
        with place.open("/v1/chat/completions", {"messages": HELLO, "stream": True},
                        **header) as answer:
            events = [json.loads(x[6:]) for x in answer.read().decode().splitlines()
                      if x.startswith("data: {")]
        return "".join(x["choices"][0]["delta"].get("content", "") for x in events)
    for key, stream in (("a", True), ("a", False), ("b", False), ("b", True)):
        assert ask(stream, key) == "one two three four"
    assert len(place.jobs()) == 2


def test_keys_of_one_and_of_several_prompts_do_not_meet(place):
    several = {"prompt": ["a", "b"]}
    for key, body in (("k", several), ("k-0", {"prompt": "c"}), ("1-of-k", {"prompt": "d"}),
                      ("k-1", several)):
        status, answer, _ = place.post("/v1/completions", body, **{"Idempotency-Key": key})
        assert status == 200, answer
    assert len(place.jobs()) == 6


def test_a_key_means_all_prompts_of_a_request(place):
    def ask(prompt):
        status, answer, _ = place.post("/v1/completions", {"prompt": prompt},
                                       **{"Idempotency-Key": "k"})
        return answer["id"] if status == 200 else (status, answer["error"]["code"])
    first = ask(["a", "b", "c"])
    for other in (["a", "b"], "zzz", "a", ["a", "b", "x"], ["a", "b", "c", "d"]):
        assert ask(other) == (409, "conflict"), other
    assert ask(["a", "b", "c"]) == first == "cmpl-key-k"


def test_a_refused_key_leaves_no_jobs_at_work(make_place):
    """Some of the request's prompts may have ids that nobody had."""
    place = make_place()
    place.start_engine("--step-ms", "200", "--job-steps", "500", model="slow")
    place.start_engine()
    key = {"Idempotency-Key": "k"}
    assert place.post("/v1/completions", {"prompt": ["a", "b"], "model": "stub"}, **key)[0] == 200
    for prompts in (["a", "X", "Y"], ["a", "b", "c", "d"]):
        status, _, _ = place.post("/v1/completions", {"prompt": prompts, "model": "slow"}, **key)
        assert status == 409
    until(lambda: len(place.jobs("cancelled")) == 2, "cancelled jobs")
    assert len(place.jobs()) == len(place.jobs("completed")) + 2 == 4


def test_answers_survive_the_broker(make_place):
    place = make_place()
    place.start_engine()
    body, key = {"messages": HELLO}, {"Idempotency-Key": "again"}
    first = place.post("/v1/chat/completions", body, **key)
    place.processes[-1].terminate()  # the engine: the answer needs none
    place.broker.terminate()
    place.broker.wait()
    place.start_broker()
    assert place.post("/v1/chat/completions", body, **key)[1]["id"] == first[1]["id"]


def test_an_engine_that_dies_costs_time_only(make_place):
    place = make_place("--lease-ms", "1000")
    engine = place.start_engine("--step-ms", "100", "--job-steps", "30", "--text", "whole text")
    chunks = []

    def read():
        with openai.OpenAI(base_url=place.url + "/v1", api_key="none") as client:
            chunks.extend(client.chat.completions.create(model="stub", messages=HELLO,
                                                         stream=True))
    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: len(chunks) > 2 or place.jobs("leased"), "running job")
    engine.kill()
    place.start_engine("--step-ms", "10", "--job-steps", "30", "--text", "whole text")
    reader.join()
    assert "".join(x.choices[0].delta.content or "" for x in chunks) == "whole text"
    assert chunks[-1].choices[0].finish_reason == "stop"
