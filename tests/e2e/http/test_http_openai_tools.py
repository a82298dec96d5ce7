"""Tool calls in each form that models write, as the openai package reads them, whole and streamed.
"""
import json

import openai
import pytest
from batch_place import begin, chat_line, ended, lines_of
from http_place import HELLO

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"]}}}]
ARGUMENTS = '{"city": "Köln", "days": 2}'
FORMS = {
    "hermes": '\n{"name": "get_weather", "arguments": %s}\n' % ARGUMENTS,
    "llama": '{"name": "get_weather", "parameters": %s}' % ARGUMENTS,
    "mistral": '[{"name": "get_weather", "arguments": %s}]' % ARGUMENTS,
    "mistral_later": "get_weather[ARGS]%s" % ARGUMENTS,
    "llama_built_in": 'get_weather.call(city="Köln", days=2)',
    "qwen3_coder": "<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n"
                   "<parameter=days>\n2\n</parameter>\n</function>",
    "glm": "get_weather\n<arg_key>city</arg_key>\n<arg_value>Köln</arg_value>\n"
           "<arg_key>days</arg_key>\n<arg_value>2</arg_value>",
    "gemma": 'call:get_weather{city:<|"|>Köln<|"|>,days:2}',
    "deepseek": "<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>%s<｜tool▁call▁end｜>" % ARGUMENTS,
    "gpt_oss": "commentary to=functions.get_weather <|constrain|>json<|message|>" + ARGUMENTS,
}


@pytest.fixture
def ask(make_place):
    """Asks engines that answer with such calls; gives the answer, or the chunks of its stream."""
    clients = []

    def with_engine(*options):
        place = make_place()
        place.start_engine("--job-steps", "6", *options)
        client = openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0)
        clients.append(client)
        return lambda **fields: client.chat.completions.create(
            model="stub", **{"messages": HELLO, "tools": TOOLS, **fields})
    yield with_engine
    for client in clients:
        client.close()


def streamed(chunks):
    """What the pieces of a stream make together: its text, its calls and why it ended."""
    text, calls, reasons = "", {}, []
    for chunk in chunks:
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        for piece in choice.delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"id": "", "name": "", "arguments": ""})
            call["id"] += piece.id or ""
            call["name"] += piece.function.name or ""
            call["arguments"] += piece.function.arguments or ""
        reasons += [choice.finish_reason] if choice.finish_reason else []
    assert len(reasons) == 1 and list(calls) == list(range(len(calls)))
    return text, list(calls.values()), reasons[0]


def check(call, arguments={"city": "Köln", "days": 2}):
    assert call["name"] == "get_weather" and json.loads(call["arguments"]) == arguments
    assert len(call["id"]) == 9


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_each_form(ask, form):
    chat = ask("--text", "", "--tool-call", FORMS[form])
    choice = chat().choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    call, = choice.message.tool_calls
    assert call.type == "function"
    check({"id": call.id, **call.function.model_dump()})
    text, calls, reason = streamed(chat(stream=True))
    assert text == "" and reason == "tool_calls" and len(calls) == 1
    check(calls[0])


def test_a_text_and_several_calls(ask):
    chat = ask("--text", "I look it up.", "--tool-call", FORMS["hermes"], "--tool-call",
               '{"name": "get_weather", "arguments": {"city": "Bonn"}}')
    message = chat().choices[0].message
    assert message.content == "I look it up." and len(message.tool_calls) == 2
    text, calls, reason = streamed(chat(stream=True))
    assert text == "I look it up." and reason == "tool_calls"
    check(calls[0])
    check(calls[1], {"city": "Bonn"})
    assert calls[0]["id"] != calls[1]["id"]
    for i in range(2):
        assert message.tool_calls[i].function.arguments == calls[i]["arguments"]


def test_a_whole_answer_that_is_a_call(ask):
    """Llama 3 writes no markers: the text is held back until it is known what it is."""
    chat = ask("--text", FORMS["llama"])
    call, = chat().choices[0].message.tool_calls
    check({"id": call.id, **call.function.model_dump()})
    text, calls, reason = streamed(chat(stream=True))
    assert text == "" and reason == "tool_calls"
    check(calls[0])


def test_what_is_no_call_stays_text(ask):
    broken = '{"name": "get_weather", "arguments": '
    chat = ask("--text", "Look: ", "--tool-call", broken)
    choice = chat().choices[0]
    assert choice.message.content == "Look: " + broken and choice.message.tool_calls is None
    assert choice.finish_reason == "stop"
    assert streamed(chat(stream=True)) == ("Look: " + broken, [], "stop")


def test_tools_that_are_not_shown_are_not_called(ask):
    chat = ask("--text", FORMS["llama"])
    for fields in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
        choice = chat(**fields).choices[0]
        assert choice.message.content == FORMS["llama"] and choice.finish_reason == "stop"
        assert streamed(chat(stream=True, **fields)) == (FORMS["llama"], [], "stop")


def test_lines_of_batches_have_the_same_calls(make_place):
    """Who writes them has no request, but some forms are read with the tools: a name alone is a
    call of a tool that there is, and what looks like a number is a text where the tool says so.
    """
    place = make_place()
    place.start_engine("--text", "", "--tool-call", "get_time", "--tool-call",
                       "<function=by_zip>\n<parameter=zip>\n12345\n</parameter>\n</function>")
    tools = [{"type": "function", "function": {"name": "get_time"}},
             {"type": "function", "function": {"name": "by_zip", "parameters": {
                 "type": "object", "properties": {"zip": {"type": "string"}}}}}]
    line = chat_line(1, tools=tools)
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        done = ended(client, begin(client, [line]))
        (written,) = lines_of(client, done.output_file_id)
        over_http = client.chat.completions.create(**line["body"]).choices[0]
    choice = written["response"]["body"]["choices"][0]
    calls = [x["function"] for x in choice["message"]["tool_calls"]]
    assert calls == [x.function.model_dump() for x in over_http.message.tool_calls]
    assert [(x["name"], json.loads(x["arguments"])) for x in calls] == [
        ("get_time", {}), ("by_zip", {"zip": "12345"})]
    assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls"
    assert written["response"]["body"]["millrace"]["metadata"] == {}


def test_the_answer_of_a_tool_goes_back(ask):
    chat = ask("--text", "It rains.")
    call = {"id": "abcdefghi", "type": "function",
            "function": {"name": "get_weather", "arguments": ARGUMENTS}}
    answer = chat(messages=[*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]},
                            {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"}])
    assert answer.choices[0].message.content == "It rains."
