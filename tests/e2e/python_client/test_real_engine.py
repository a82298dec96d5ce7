"""The package with the real engine on the test model."""
import contextlib
import math
import threading

import millrace
import numpy
import pytest
from client_place import BIN, model_path, until
from millrace import errors


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with millrace.run(model_path(), folder=tmp_path_factory.mktemp("state"), programs=BIN,
                      max_batch=8, kv_memory="64MiB") as local:
        yield local


def test_texts_and_their_logprobs(local):
    result = local.generate("The capital of France is", max_tokens=8, temperature=0, logprobs=3)
    assert "Paris" in result.raise_for_error().text
    choice, logprobs = result.choices[0], result.logprobs
    count = len(choice.tokens)
    assert choice.tokens.dtype == numpy.uint32 and logprobs.token.dtype == numpy.float32
    assert logprobs.token.shape == (count,) and logprobs.top == 3
    assert logprobs.top_ids.shape == logprobs.top_logprobs.shape == (count, 3)
    assert (logprobs.top_ids[:, 0] == choice.tokens).all()  # greedy
    assert (logprobs.top_logprobs[:, 0] == logprobs.token).all()
    assert result.usage.completion_tokens == count
    assert result.effective.temperature == 0 and result.effective.fingerprint


def test_a_score_gives_the_logprobs_of_the_prompt(local):
    result = local.generate("The sea is blue", task="score")
    assert result.ok and result.text == "" and not result.choices
    scored = result.prompt_logprobs.token
    assert math.isnan(scored[0]) and (scored[1:] < 0).all()
    assert len(result.result.prompt) == len(scored) == result.usage.prompt_tokens


def test_listed_tokens_have_a_row_for_each_position(local):
    ids = [504, 260, 284]
    result = local.generate("The sea is", max_tokens=4, temperature=0, logprobs=3,
                            logprob_token_ids=ids)
    listed = result.logprobs.listed
    assert list(listed.ids) == ids and listed.logprobs.shape == (4, 3)
    for row, top, values in zip(listed.logprobs, result.logprobs.top_ids,
                                result.logprobs.top_logprobs):
        for place, token in enumerate(ids):
            if token in top:
                assert row[place] == values[list(top).index(token)]


def test_chats_and_errors_of_the_engine(local):
    chat = [{"role": "user", "content": "Say hello."}]
    good, bad = local.map([chat, [10 ** 9]], max_tokens=8, temperature=0)
    assert good.ok and good.text
    assert bad.error.code == "invalid_token" and bad.error.hint
    with pytest.raises(millrace.errors.InvalidTokenError) as caught:
        bad.text
    assert caught.value.facts["job"] == bad.job


def test_the_same_prompt_gives_the_same_text(local):
    texts = {r.text for r in local.map(["Once upon a time"] * 6, max_tokens=12)}
    assert len(texts) == 1
    several = local.generate("Once upon a time", n=3, max_tokens=12).choices
    assert [one.index for one in several] == [0, 1, 2]


def test_partial_texts_come_while_a_job_runs(local):
    pieces = []

    def watch():
        with contextlib.suppress(errors.UsageError):  # once the client is closed
            for piece in local.partials("shown"):
                pieces.append(piece)

    threading.Thread(target=watch, daemon=True).start()
    until(lambda: "shown" in local._link.watchers._by_stream, "watch")
    local.status()  # answered after the watch
    result = local.wait(local.submit("The sea is", max_tokens=24, temperature=0, partials=True,
                                     stream="shown"))
    until(lambda: pieces, "partial text")
    assert {piece.job for piece in pieces} == {result.job}
    assert result.text.startswith(pieces[0].text)
