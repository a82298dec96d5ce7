"""What the openai package raises where a request is refused, and how it tries again."""
import socket
import threading

import openai
import pytest
from http_place import HELLO

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def chat(client, messages=HELLO, **fields):
    return client.chat.completions.create(model="stub", messages=messages, **fields)


@pytest.mark.parametrize("fields", [
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
    {"tools": [TOOL], "tool_choice": "required"},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"functions": [{"name": "f"}]}, {"modalities": ["text", "audio"]}, {"web_search_options": {}}],
    ids=lambda fields: list(fields)[-1])
def test_what_is_not_supported_is_refused(client, place, fields):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)
    assert (caught.value.code, caught.value.param) == ("unsupported_field", list(fields)[-1])
    assert caught.value.body["hint"] and not place.jobs()


def test_values_of_other_servers(client):
    for fields in ({"seed": -1}, {"top_k": -1}, {"max_tokens": -1}, {"n_predict": -1},
                   {"max_completion_tokens": -1}):
        assert chat(client, extra_body=fields).choices[0].finish_reason == "stop", fields
    for field, value in (("max_tokens", -1), ("n_predict", -1), ("prompt_logprobs", 1)):
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model="stub", prompt="a", extra_body={field: value})
        assert caught.value.param == field and caught.value.body["hint"]


def test_what_the_package_shows_of_an_error_says_what_to_do(client):
    """It shows the message alone where somebody prints that: the hint is in it, once."""
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="gpt-x", prompt="a")
    told = caught.value.body
    assert told["message"] == "model 'gpt-x' is served by no engine. Engines serve 'stub'"
    assert told["hint"] == "engines serve 'stub'"
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, response_format={"type": "json_object"})
    assert caught.value.body["message"].startswith("response_format is not supported. Leave it out")


def test_parts_of_messages_that_are_no_text(client):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, [{"role": "user", "content": [image]}])
    assert caught.value.param == "messages[0].content[0].type"
    parts = [{"type": "text", "text": "Hello"}]
    assert chat(client, [{"role": "user", "content": parts}]).choices[0].message.content


@pytest.mark.parametrize("fields, param", [
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]},
     "messages[0].content[0].text"),
    ({"tools": [TOOL, {"type": "function"}]}, "tools[1].function"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name")],
    ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_message_or_a_tool_lacks(client, place, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)
    assert (caught.value.code, caught.value.param) == ("missing_field", param)
    assert caught.value.body["hint"] and not place.jobs()


@pytest.mark.parametrize("fields, param", [
    ({"logit_bias": {"5": 101}}, "logit_bias"), ({"top_logprobs": 3}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 1000}, "top_logprobs"), ({"n": 0}, "n"),
    ({"max_tokens": 0}, "max_tokens"), ({"stop": [1]}, "stop[0]"),
    ({"extra_body": {"stream_options": {"include_usage": True}}}, "stream_options"),
    ({"extra_body": {"stream": "yes"}}, "stream"), ({"seed": -1.5}, "seed")],
    ids=lambda value: value if isinstance(value, str) else "")
def test_values_that_are_wrong(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **fields)
    assert caught.value.param == param and caught.value.status_code == 400
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("fields, param", [
    ({"prompt": [-1]}, "prompt[0]"), ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": ["a", [1]]}, "prompt[1]"), ({"prompt": [[1], "a"]}, "prompt[1]"),
    ({"prompt": "a", "suffix": "b"}, "suffix"), ({"prompt": "a", "best_of": 3}, "best_of"),
    ({"prompt": "a", "extra_body": {"echo": "yes"}}, "echo"),
    ({"prompt": ["a"] * 3000}, "prompt")],
    ids=lambda value: value if isinstance(value, str) else "")
def test_completions_that_are_wrong(client, fields, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="stub", **fields)
    assert caught.value.param is not None and caught.value.param.startswith(param)


def test_streams_that_are_refused_are_errors_and_no_streams(client):
    for fields in ({"temperature": -1}, {"tool_choice": "required", "tools": [TOOL]}):
        with pytest.raises(openai.BadRequestError):
            chat(client, stream=True, **fields)
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="other", prompt="a", stream=True)
    assert caught.value.code == "unknown_model"


@pytest.mark.parametrize("call", [
    lambda client: client.embeddings.create(model="stub", input="a"),
    lambda client: client.responses.create(model="stub", input="a"),
    lambda client: client.images.generate(model="stub", prompt="a"),
    lambda client: client.moderations.create(input="a")],
    ids=["embeddings", "responses", "images", "moderations"])
def test_addresses_that_are_not_served(client, call):
    with pytest.raises(openai.NotFoundError) as caught:
        call(client)
    assert caught.value.code == "not_found" and "/v1/" in str(caught.value)
    assert "/v1/chat/completions" in caught.value.body["hint"]


def test_a_base_url_without_v1(place):
    with openai.OpenAI(base_url=place.url, api_key="none", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            chat(client)
    assert "the address is /v1/chat/completions" in caught.value.body["hint"]


def test_the_package_tries_again_until_an_engine_is_there(make_place):
    place = make_place()
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            chat(client)
        assert caught.value.status_code == 503 and caught.value.response.headers["Retry-After"]
    answers = []

    def ask():
        with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=100) as client:
            answers.append(chat(client).choices[0].message.content)
    asking = threading.Thread(target=ask)
    asking.start()
    place.start_engine("--text", "here")
    asking.join()
    assert answers == ["here"]


def test_a_server_that_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none",
                       max_retries=0) as client:
        with pytest.raises(openai.APIConnectionError):
            chat(client)


def test_a_server_that_goes_while_it_streams(make_place):
    place = make_place()
    engine = place.start_engine("--text", "word " * 1000, "--step-ms", "50", "--job-steps", "1000")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        stream = chat(client, stream=True)
        next(x for x in stream if x.choices[0].delta.content)
        place.broker.kill()
        with pytest.raises(Exception) as caught:
            list(stream)
        assert caught.type.__name__ in ("APIConnectionError", "RemoteProtocolError")
    engine.kill()  # it would finish its job and wait for the broker


def test_bodies_that_are_too_large(client):
    with pytest.raises(openai.APIStatusError) as caught:
        chat(client, [{"role": "user", "content": "a" * 20_000_000}])
    assert caught.value.status_code == 413 and caught.value.code == "too_large"
