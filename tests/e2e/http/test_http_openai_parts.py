"""More of the openai package: raw answers, helpers, odd texts, and settings that change nothing."""
import json

import openai
import pytest
from http_place import HELLO
from shapes import events

ODD = "Grüße, \U0001f469\u200d\U0001f680 \"quoted\" \\ </script> \u2028 \x7f\n\ttab 日本語"


@pytest.fixture
def odd(make_place):
    place = make_place()
    place.start_engine("--text", ODD, "--job-steps", "1")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as one:
        yield one


def test_odd_texts(odd):
    fields = dict(model="stub", messages=[{"role": "user", "content": ODD}])
    assert odd.chat.completions.create(**fields).choices[0].message.content == ODD
    chunks = odd.chat.completions.create(**fields, stream=True)
    assert "".join(x.choices[0].delta.content or "" for x in chunks) == ODD
    chunks = odd.completions.create(model="stub", prompt=ODD, stream=True)
    assert "".join(x.choices[0].text for x in chunks) == ODD


def test_raw_answers(client):
    raw = client.chat.completions.with_raw_response.create(model="stub", messages=HELLO)
    answer = raw.parse()
    assert raw.status_code == 200 and raw.headers["Content-Type"] == "application/json"
    assert raw.request_id and raw.request_id in answer.id
    with client.chat.completions.with_streaming_response.create(
            model="stub", messages=HELLO, stream=True) as raw:
        assert raw.headers["Content-Type"].startswith("text/event-stream")
        lines = [line for line in raw.iter_lines() if line]
    assert lines[-1] == "data: [DONE]" and all(line.startswith("data: ") for line in lines)
    events = [json.loads(line[6:]) for line in lines[:-1]]
    assert {x["object"] for x in events} == {"chat.completion.chunk"}


def test_the_helper_for_streams(client):
    with client.chat.completions.stream(model="stub", messages=HELLO) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds and kinds[-1] == "content.done"
    assert final.choices[0].message.content == "one two three four"
    assert final.choices[0].finish_reason == "stop"


def test_the_helper_that_parses(client):
    answer = client.chat.completions.parse(model="stub", messages=HELLO)
    assert answer.choices[0].message.content == "one two three four"


def test_settings_that_every_client_sends(client):
    answer = client.chat.completions.create(
        model="stub", messages=[{"role": "developer", "content": "Be brief."}, *HELLO],
        max_completion_tokens=8, user="somebody", store=False, metadata={"a": "b"},
        service_tier="auto", parallel_tool_calls=True, response_format={"type": "text"},
        frequency_penalty=0.1, presence_penalty=0.1, logit_bias={"5": -100}, top_p=0.9, seed=7,
        stop=None, stream=False, tools=openai.NOT_GIVEN)
    assert answer.choices[0].message.content == "one two three four"


def test_names_of_other_servers(client):
    """Those of vLLM and llama-server stand beside OpenAI's."""
    answer = client.chat.completions.create(
        model="stub", messages=HELLO, extra_body={
            "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1, "min_tokens": 1,
            "ignore_eos": False, "skip_special_tokens": True, "stop_token_ids": [2],
            "chat_template_kwargs": {"enable_thinking": False}})
    assert answer.choices[0].finish_reason == "stop"
    answer = client.completions.create(
        model="stub", prompt="Once", extra_body={
            "n_predict": 8, "repeat_penalty": 1.1, "cache_prompt": True, "typical_p": 1.0})
    assert answer.choices[0].text == "one two three four"


def test_prompts_of_token_ids(client):
    answer = client.completions.create(model="stub", prompt=[[1, 2, 3], [4, 5]])
    assert [x.index for x in answer.choices] == [0, 1]
    assert client.completions.create(model="stub", prompt=[1, 2, 3]).choices[0].text


def test_a_stream_that_is_left(client, place):
    """The connection serves the next request."""
    for _ in range(20):
        with client.chat.completions.create(model="stub", messages=HELLO, stream=True) as stream:
            next(iter(stream))
    assert client.chat.completions.create(model="stub", messages=HELLO).choices


def test_usage_of_streams(client):
    for include in (True, False):
        chunks = list(client.completions.create(model="stub", prompt="a", n=2, stream=True,
                                                stream_options={"include_usage": include}))
        told = [x.usage for x in chunks if x.usage]
        assert len(told) == include
        assert not include or (told[0].prompt_tokens, told[0].completion_tokens) == (1, 8)


def test_pages_of_models(client):
    assert [model.id for model in client.models.list()] == ["stub"]
    assert client.models.list().has_next_page() is False


def test_a_field_that_nobody_knows_is_told_in_the_answer(client, place):
    for path, prompt in (("/v1/chat/completions", {"messages": HELLO}),
                         ("/v1/completions", {"prompt": "Once"})):
        asked = {"model": "stub", **prompt}
        assert "millrace" not in place.post(path, asked)[1]
        told = place.post(path, {**asked, "temprature": 0})[1]["millrace"]
        assert list(told) == ["warnings"]
        warning, = told["warnings"]
        assert "temprature" in warning and "was left out" in warning
        for fields in ({}, {"stream_options": {"include_usage": True}}):
            with place.open(path, {**asked, "temprature": 0, "stream": True, **fields}) as stream:
                *others, last = events(stream)
            assert last["millrace"] == told and not any("millrace" in one for one in others)
    answer = client.chat.completions.create(model="stub", messages=HELLO,
                                            extra_body={"temprature": 0})
    assert answer.millrace == told, "the package keeps it"
