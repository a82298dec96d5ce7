"""What a model's file says about itself reaches those who should know: the sampling that it
suggests, and how it marks its reasoning."""
import json

import pytest

from tiny_gguf import TEMPLATE, tiny_gguf

SUGGESTION = {"general.sampling.temp": 0.5, "general.sampling.top_k": 7,
              "general.sampling.penalty_repeat": 1.25}
SHOWN = 'temperature 0.5, top_k 7, repetition_penalty 1.25 (used by jobs with "sampling": "model")'
A = ord("A")  # a token id: the vocabulary begins with the bytes


def job(custom_id, **fields):
    return {"custom_id": custom_id, "prompt": "hello", "max_tokens": 8, **fields}


JOBS = [job("own"), job("model", sampling="model"),
        job("both", sampling="model", temperature=1, repeat_penalty=1.0, min_p=0.125)]


def lines(jobs):
    return "".join(json.dumps(x) + "\n" for x in jobs)


def bodies(text):
    records = map(json.loads, text.splitlines())
    return {r["custom_id"]: r["response"]["body"] for r in records}


def test_a_suggestion_is_shown_and_used_only_by_jobs_that_ask(real_run, real_broker):
    model = tiny_gguf(SUGGESTION)
    real_run.model.write_bytes(model)
    real_run.write([json.dumps(x) for x in JOBS])
    assert f"; the model suggests {SHOWN}\n" in real_run.go(expect=0).stderr
    run = bodies(real_run.output.read_text())
    real_broker.real_engine(content=model)
    assert f"\n  suggests {SHOWN}\n" in real_broker.millrace("status").stdout
    (engine,) = json.loads(real_broker.millrace("status", "--json").stdout)["engines"]
    assert engine["suggested_sampling"] == {
        "temperature": 0.5, "top_k": 7, "repetition_penalty": 1.25}
    assert engine["suggested_sampling_error"] == ""
    names = ("temperature", "top_k", "min_p", "repetition_penalty")
    used = {name: [body["effective"].get(x) for x in names] for name, body in run.items()}
    assert used == {"own": [1, 0, 0, None], "model": [0.5, 7, 0, 1.25],
                    "both": [1, 7, 0.125, None]}
    submit = real_broker.folder / "jobs.jsonl"
    submit.write_text(lines(JOBS))
    sent = bodies(real_broker.millrace("submit", str(submit), "--wait", expect=0).stdout)
    for name, body in sent.items():
        assert body["effective"]["seed"] == run[name]["effective"]["seed"]
        assert body["choices"][0]["token_ids"] == run[name]["choices"][0]["token_ids"]
    # The values that were used give the same text as explicit fields.
    again = {x: run["model"]["effective"][x] for x in (*names, "seed")}
    submit.write_text(lines([job("again", **again)]))
    told = bodies(real_broker.millrace("submit", str(submit), "--wait", expect=0).stdout)["again"]
    assert told["choices"][0]["token_ids"] == run["model"]["choices"][0]["token_ids"]


@pytest.mark.parametrize("keys, why", [
    ({}, "the model's file suggests none"),
    ({"general.sampling.temp": 0.5, "general.sampling.top_p": 1.5}, "top_p is 1.5"),
    ({"general.sampling.temp": "hot"}, "general.sampling.temp")])
def test_without_a_usable_suggestion_only_the_jobs_that_ask_fail(real_run, keys, why):
    real_run.model.write_bytes(tiny_gguf(keys))
    real_run.write([json.dumps(x) for x in JOBS[:2]])
    done = real_run.go(expect=1)
    assert ("the model suggests sampling that cannot be used: " in done.stderr) == bool(keys)
    own, asked = real_run.results()[1], real_run.results()[2]
    assert own["error"] is None
    assert asked["error"]["code"] == "unsupported_field"
    assert asked["error"]["message"].startswith("sampling: ") and why in asked["error"]["message"]


def test_reasoning_that_the_template_begins_is_apart_from_the_answer(real_run):
    real_run.model.write_bytes(tiny_gguf(template=TEMPLATE + "<think>\n{# </think> #}"))
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0,
            "allowed_token_ids": [A], "logprobs": True}
    real_run.write([
        json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions",
                    "body": {**body, **more}})
        for name, more in {"apart": {}, "raw": {"markers": "none"}}.items()]
        + [json.dumps(job("prompt", allowed_token_ids=[A], max_tokens=4))])
    real_run.go(expect=0)
    told = bodies(real_run.output.read_text())
    choice = told["apart"]["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "", "refusal": None,
                                 "reasoning_content": "AAAA"}
    assert choice["reasoning_spans"] == [0, 4] and len(choice["logprobs"]["content"]) == 4
    assert told["apart"]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 4}
    assert told["raw"]["choices"][0]["message"] == {
        "role": "assistant", "content": "AAAA", "refusal": None}
    assert told["prompt"]["choices"][0]["text"] == "AAAA"
    assert "reasoning" not in told["prompt"]["choices"][0]
