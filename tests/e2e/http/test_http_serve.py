"""`millrace serve` with the real model and the unmodified openai package."""
import http.client
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import urllib.parse
import urllib.request

import openai
import pytest
from batch_place import begin, chat_line, ended, lines_of, text_of
from http_place import model_path, program, start_serve, until
from patience import PATIENCE_S

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    process, url = start_serve(tmp_path_factory.mktemp("s") / "state")
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as one:
        until(lambda: one.models.list().data, "model")
        yield one
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def test_chat_and_its_stream_are_the_same_text(client, model):
    fields = dict(model=model, messages=QUESTION, max_tokens=24, temperature=0)
    whole = client.chat.completions.create(**fields)
    text = whole.choices[0].message.content
    assert len(text) > 20
    pieces = list(client.chat.completions.create(**fields, stream=True,
                                                 stream_options={"include_usage": True}))
    assert "".join(x.choices[0].delta.content or "" for x in pieces if x.choices) == text
    assert len([x for x in pieces if x.choices and x.choices[0].delta.content]) > 1
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert pieces[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0


def test_seeds(client, model):
    def text(seed):
        return client.completions.create(model=model, prompt="Once upon a time", max_tokens=16,
                                         temperature=1, seed=seed).choices[0].text
    assert text(1) == text(1) != text(2)


def test_requests_without_a_seed_differ(client, model):
    texts = {client.completions.create(model=model, prompt="Once upon a time", max_tokens=16,
                                       temperature=1).choices[0].text for _ in range(3)}
    assert len(texts) > 1


def test_choices_differ(client, model):
    answer = client.completions.create(model=model, prompt="Once upon a time", max_tokens=16, n=3,
                                       temperature=1, seed=3)
    assert len({x.text for x in answer.choices}) == 3
    assert answer.usage.completion_tokens == 48


def test_stop(client, model):
    answer = client.completions.create(model=model, prompt="1, 2, 3, 4,", max_tokens=32,
                                       temperature=0, stop=[" 7"])
    assert " 6" in answer.choices[0].text and "7" not in answer.choices[0].text
    assert answer.choices[0].finish_reason == "stop"
    cut = client.completions.create(model=model, prompt="1, 2, 3,", max_tokens=2, temperature=0)
    assert cut.choices[0].finish_reason == "length"


def test_logprobs_of_a_chat(client, model):
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=8,
                                            temperature=0, logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert "".join(x.token for x in tokens).startswith(answer.choices[0].message.content[:5])
    for token in tokens:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob == max(x.logprob for x in token.top_logprobs)
        assert math.isclose(token.logprob, token.top_logprobs[0].logprob)
        assert bytes(token.bytes).decode() == token.token


def test_logprobs_of_a_completion(client, model):
    answer = client.completions.create(model=model, prompt="The sky is", max_tokens=4,
                                       temperature=0, logprobs=2, echo=True)
    logprobs = answer.choices[0].logprobs
    assert answer.choices[0].text.startswith("The sky is")
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs)
    assert logprobs.token_logprobs[0] is None and "".join(logprobs.tokens) == answer.choices[0].text


def test_logprobs_of_a_completion_in_a_batch(client, model):
    body = dict(model=model, prompt="The sky is", max_tokens=4, temperature=0, logprobs=2,
                echo=True)
    scored = {**body, "max_tokens": 0}
    lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": one}
             for i, one in enumerate((body, scored))]
    done = ended(client, begin(client, lines, endpoint="/v1/completions"))
    assert done.request_counts.completed == 2
    for line in lines_of(client, done.output_file_id):
        (choice,) = line["response"]["body"]["choices"]
        asked = dict(**lines[int(line["custom_id"])]["body"],
                     extra_body={"return_token_ids": True})
        over_http = client.completions.create(**asked).choices[0]
        assert choice["text"] == over_http.text
        assert choice["logprobs"] == over_http.logprobs.to_dict()
        streamed = [x.choices[0] for x in client.completions.create(**asked, stream=True)]
        sampled = [token for x in streamed for token in getattr(x, "token_ids", None) or []]
        assert choice["token_ids"] == over_http.token_ids == sampled
        assert len(sampled) == (4 if line["custom_id"] == "0" else 0)


def test_a_tool_that_the_model_calls(client, model):
    """Its earlier answers in the chat show it how."""
    def call(city):
        return json.dumps({"name": "get_weather", "parameters": {"city": city}})
    chat = [{"role": "system", "content": "You call functions."}]
    for city in ("Paris", "Rome", "Berlin"):
        chat += [{"role": "user", "content": f"How is the weather in {city}?"},
                 {"role": "assistant", "content": call(city)}]
    chat += [{"role": "user", "content": "How is the weather in Oslo?"}]
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}
    fields = dict(model=model, messages=chat, tools=[tool], temperature=0, max_tokens=40)
    choice = client.chat.completions.create(**fields).choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    whole, = choice.message.tool_calls
    chunks = [x.choices[0] for x in client.chat.completions.create(**fields, stream=True)]
    streamed, = [call for x in chunks for call in x.delta.tool_calls or []]
    for one in (whole, streamed):
        assert one.function.name == "get_weather"
        assert json.loads(one.function.arguments) == {"city": "Oslo"}
    assert chunks[-1].finish_reason == "tool_calls"
    assert not "".join(x.delta.content or "" for x in chunks)


def chat_after_a_call(**call_turn):
    called = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    return [*QUESTION, {"role": "assistant", "tool_calls": [called], **call_turn},
            {"role": "tool", "tool_call_id": "1", "content": "Paris"}]


def test_a_turn_without_a_content(client, model, tmp_path):
    """Its template joins texts, so that none is an empty one."""
    bodies = [dict(model=model, messages=chat_after_a_call(**turn), max_tokens=8, temperature=0)
              for turn in ({"content": ""}, {"content": None}, {})]
    empty, *others = [client.chat.completions.create(**body) for body in bodies]
    for other in others:
        assert other.usage.prompt_tokens == empty.usage.prompt_tokens > 0
        assert other.choices[0].message.content == empty.choices[0].message.content
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    checked = subprocess.run([program("millrace"), "check", lines, "--model", model_path()],
                             text=True, capture_output=True, timeout=PATIENCE_S, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_prompt_beyond_the_context(client, model):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model=model, prompt="word " * 20_000, stream=stream)
        assert caught.value.code == "context_exceeded"


def post(client, path, **body):
    """An answer beside OpenAI's API."""
    return client.post(str(client.base_url).removesuffix("/v1/") + path, body=body,
                       cast_to=dict[str, object])


def test_tokens(client):
    vllm = post(client, "/tokenize", prompt="Hello world")
    llama = post(client, "/tokenize", content="Hello world")
    assert vllm["count"] == len(vllm["tokens"]) and llama["tokens"]
    text = post(client, "/detokenize", tokens=llama["tokens"])
    assert text == {"prompt": "Hello world", "content": "Hello world"}
    pieces = post(client, "/tokenize", content="Hello wörld ἰ", with_pieces=True)["tokens"]
    plain = post(client, "/tokenize", content="Hello wörld ἰ")["tokens"]
    assert [one["id"] for one in pieces] == plain
    assert {type(one["piece"]) for one in pieces} == {str, list}
    assert b"".join(one["piece"].encode() if isinstance(one["piece"], str) else bytes(one["piece"])
                    for one in pieces).decode() == "Hello wörld ἰ"
    for path, body in (("/tokenize", {}), ("/tokenize", {"prompt": 1}),
                       ("/detokenize", {"tokens": [4_000_000_000]}), ("/detokenize", {"tokens": 1}),
                       ("/tokenize", {"prompt": "a", "parse_special": "no"})):
        with pytest.raises(openai.BadRequestError):
            post(client, path, **body)


def test_long_texts_keep_nobody_waiting(client):
    """They are worked on beside the server's thread, and only so many wait."""
    address = urllib.parse.urlsplit(str(client.base_url)).netloc
    body = json.dumps({"prompt": "a" * 1_000_000}).encode()
    asked = [http.client.HTTPConnection(address, timeout=PATIENCE_S) for _ in range(32)]
    for one in asked:
        one.request("POST", "/tokenize", body)
    statuses = [one.getresponse().status for one in asked]
    assert set(statuses) == {200, 503}, statuses
    assert statuses.count(200) >= 16
    assert post(client, "/tokenize", prompt="Hello")["tokens"]


def answer_of(address):
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        assert answer.status == 200
        return answer.read().decode()


def check_addresses(api, page, metrics):
    assert json.loads(answer_of(api + "/models"))["object"] == "list"
    assert "<html" in answer_of(page)
    assert "millrace_jobs_submitted_total" in answer_of(metrics)


def test_it_tells_where_everything_is(tmp_path):
    """As lines for people, and as fields of an event."""
    words = [program("millrace"), "serve", "--model", model_path(), "--http", "127.0.0.1:0",
             "--folder", tmp_path / "state"]
    with subprocess.Popen(words, text=True, stderr=subprocess.PIPE) as process:
        first, *rest = [process.stderr.readline().rstrip() for _ in range(4)]
        url = first.split()[3]
        assert first.startswith("millrace: listening on http://127.0.0.1:"), first
        told = dict(line.strip().rsplit(maxsplit=1) for line in rest)
        assert told == {"OpenAI's API (base_url)": url + "/v1", "live page": url + "/",
                        "metrics for Prometheus": url + "/metrics"}
        check_addresses(*told.values())
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    with subprocess.Popen([*words, "--json"], text=True, stdout=subprocess.PIPE) as process:
        event = next(x for x in map(json.loads, process.stdout) if x["event"] == "listening")
        check_addresses(event["api"], event["page"], event["metrics"])
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(PATIENCE_S) == 0


def test_ctrl_c_and_a_second_start(tmp_path):
    process, url = start_serve(tmp_path / "state")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    process, url = start_serve(tmp_path / "state")
    with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
        until(lambda: client.models.list().data, "model")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_one_folder_is_for_one_server(tmp_path):
    process, url = start_serve(tmp_path / "state")
    second = subprocess.run([program("millrace"), "serve", "--model", model_path(), "--http",
                             "127.0.0.1:0", "--folder", tmp_path / "state"], text=True,
                            capture_output=True, timeout=PATIENCE_S, check=False)
    assert second.returncode == 3 and "--folder" in second.stderr, second.stderr
    with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
        until(lambda: client.models.list().data, "model")  # the first one goes on
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


def test_a_model_that_is_none(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")
    done = subprocess.run([program("millrace"), "serve", "--model", bad, "--http", "127.0.0.1:0",
                           "--folder", tmp_path / "state"], text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 3 and "gguf" in done.stderr, done.stderr


def refused(*options, **more):
    return subprocess.run([program("millrace"), "serve", *map(str, options)], text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False, **more)


def test_models_of_one_name_have_folders_of_their_own(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(model_path(), tmp_path / name / "m.gguf")
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that they end soon
        for model in ("one/m.gguf", "two/m.gguf", tmp_path / "one" / ".." / "one" / "m.gguf"):
            done = refused("--model", model, "--http", f"127.0.0.1:{taken.getsockname()[1]}",
                           env=state, cwd=tmp_path)
            assert done.returncode != 0
    folders = [x.name for x in (tmp_path / "state" / "millrace" / "serve").iterdir()]
    assert len(folders) == 2 and all(x.startswith("m.gguf-") for x in folders), folders


def test_an_address_that_others_could_reach(tmp_path):
    done = refused("--model", model_path(), "--http", "0.0.0.0:0", "--folder", tmp_path / "state")
    assert done.returncode == 3 and "127.0.0.1" in done.stderr, done.stderr
    assert "millrace-broker --http" in done.stderr and not (tmp_path / "state").exists()


def test_a_batch_has_the_texts_of_run(client, model, tmp_path):
    lines = [chat_line(i, model=model, max_tokens=8 + i) for i in range(6)]
    done = ended(client, begin(client, lines))
    assert done.status == "completed" and done.request_counts.completed == 6
    (tmp_path / "in.jsonl").write_text(text_of(lines))
    subprocess.run([program("millrace"), "run", "--model", model_path(), "--input",
                    tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl"], check=True,
                   capture_output=True, timeout=PATIENCE_S)
    ran = [json.loads(x) for x in (tmp_path / "out.jsonl").read_text().splitlines()]

    def texts(results):
        return {x["custom_id"]: x["response"]["body"]["choices"][0]["message"]["content"]
                for x in results}
    assert texts(lines_of(client, done.output_file_id)) == texts(ran)
    assert len(set(texts(ran).values())) > 1
