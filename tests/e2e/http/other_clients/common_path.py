"""What people do most with litellm and langchain-openai; test_http_other_clients.py runs it in an
environment that has these packages."""
import asyncio

import litellm
import openai
import pytest
from http_place import HELLO
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

TEXT = "one two three four"
CALL = '{"name": "get_weather", "arguments": {"city": "Bonn"}}'


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}]


class LiteLLM:
    def __init__(self, url):
        self.address = {"api_base": url + "/v1", "api_key": "none", "num_retries": 0,
                        "max_retries": 0}

    def chat(self, model="openai/stub", **fields):
        return litellm.completion(model=model, messages=HELLO, **self.address, **fields)

    async def chats(self, count):
        return await asyncio.gather(*(litellm.acompletion(
            model="openai/stub", messages=HELLO, **self.address) for _ in range(count)))


@pytest.fixture
def lite(place):
    return LiteLLM(place.url)


@pytest.fixture
def chain(place):
    def make(**fields):
        return ChatOpenAI(**{"model": "stub", "base_url": place.url + "/v1", "api_key": "none",
                             "max_retries": 0, **fields})
    return make


@pytest.fixture
def caller(make_place):
    """A broker whose engine calls a tool in each answer."""
    place = make_place()
    place.start_engine("--text", "", "--tool-call", CALL)
    return place


def test_litellm_chat(lite):
    answer = lite.chat(temperature=0, max_tokens=8, seed=1)
    assert answer.choices[0].message.content == TEXT
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 4 and answer.usage.prompt_tokens == 1


def test_litellm_stream(lite):
    chunks = list(lite.chat(stream=True, stream_options={"include_usage": True}))
    assert "".join(x.choices[0].delta.content or "" for x in chunks if x.choices) == TEXT
    assert chunks[-1].usage.completion_tokens == 4
    whole = litellm.stream_chunk_builder(chunks, messages=HELLO)
    assert whole.choices[0].message.content == TEXT
    assert whole.choices[0].finish_reason == "stop"


def test_litellm_many_at_once(lite):
    answers = asyncio.run(lite.chats(50))
    assert {x.choices[0].message.content for x in answers} == {TEXT}


def test_litellm_completion(lite):
    answer = litellm.text_completion(model="text-completion-openai/stub", prompt="Once",
                                     max_tokens=8, **lite.address)
    assert answer.choices[0].text == TEXT
    chunks = litellm.text_completion(model="text-completion-openai/stub", prompt="Once",
                                     stream=True, **lite.address)
    assert "".join(x.choices[0].text or "" for x in chunks) == TEXT


def test_litellm_errors(lite):
    with pytest.raises(litellm.NotFoundError, match="served by no engine"):
        lite.chat(model="openai/other")
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        lite.chat(temperature=-1)
    with pytest.raises(litellm.BadRequestError, match="tool_choice"):
        lite.chat(tools=TOOLS, tool_choice="required")
    with pytest.raises(litellm.NotFoundError, match="there is no /v1/embeddings"):
        litellm.embedding(model="openai/stub", input=["a"], **lite.address)


def test_litellm_waits_for_an_engine(make_place):
    place = make_place()
    with pytest.raises((litellm.ServiceUnavailableError, litellm.InternalServerError),
                       match="no engine"):
        LiteLLM(place.url).chat()


def test_litellm_tools(caller):
    lite = LiteLLM(caller.url)
    choice = lite.chat(tools=TOOLS).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls[0].function.name == "get_weather"
    assert choice.message.tool_calls[0].function.arguments == '{"city":"Bonn"}'
    chunks = list(lite.chat(tools=TOOLS, stream=True))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.tool_calls[0].function.arguments == '{"city":"Bonn"}'


def test_langchain_chat(chain):
    answer = chain(temperature=0, max_tokens=8).invoke(
        [SystemMessage("Be brief."), HumanMessage("Hello")])
    assert answer.content == TEXT
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["output_tokens"] == 4


def test_langchain_stream(chain):
    chunks = list(chain(stream_usage=True).stream("Hello"))
    assert "".join(x.content for x in chunks) == TEXT
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert whole.usage_metadata["output_tokens"] == 4


def test_langchain_many_at_once(chain):
    assert [x.content for x in chain().batch(["Hello"] * 20)] == [TEXT] * 20

    async def asked():
        return [x.content async for x in chain().astream("Hello")]
    assert "".join(asyncio.run(asked())) == TEXT


def test_langchain_completion(place):
    model = OpenAI(model="stub", base_url=place.url + "/v1", api_key="none", max_retries=0)
    assert model.invoke("Once") == TEXT
    assert "".join(model.stream("Once")) == TEXT


def test_langchain_logprobs(chain):
    """They are asked for and come in OpenAI's place, although the stub has none."""
    answer = chain().bind(logprobs=True, top_logprobs=2).invoke("Hello")
    assert "logprobs" in answer.response_metadata


def test_langchain_errors(chain, place):
    with pytest.raises(openai.NotFoundError, match="served by no engine"):
        chain(model="other").invoke("Hello")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        chain(temperature=-1).invoke("Hello")
    with pytest.raises(openai.BadRequestError, match="response_format"):
        chain().with_structured_output({"title": "a", "type": "object", "properties": {}},
                                       method="json_schema").invoke("Hello")
    with pytest.raises(openai.NotFoundError, match="there is no /v1/embeddings"):
        OpenAIEmbeddings(model="stub", base_url=place.url + "/v1", api_key="none", max_retries=0,
                         check_embedding_ctx_length=False).embed_query("a")


def test_langchain_tools(caller):
    model = ChatOpenAI(model="stub", base_url=caller.url + "/v1", api_key="none",
                       max_retries=0).bind_tools([get_weather])
    answer = model.invoke("What is the weather in Bonn?")
    assert [x["name"] for x in answer.tool_calls] == ["get_weather"]
    assert answer.tool_calls[0]["args"] == {"city": "Bonn"}
    chunks = list(model.stream("What is the weather in Bonn?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    assert whole.tool_calls[0]["args"] == {"city": "Bonn"}
    result = get_weather.invoke(answer.tool_calls[0])
    assert isinstance(result, ToolMessage) and result.content == "rain in Bonn"
    again = model.invoke([HumanMessage("What is the weather in Bonn?"), answer, result])
    assert again.tool_calls
