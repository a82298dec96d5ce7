"""`max_reasoning_tokens` on the real model, whose vocabulary has no markers: the job lists them,
and its prompt leaves the reasoning open."""
import json
import subprocess

import pytest
from patience import PATIENCE_S

from programs import program

PROMPT = "Question: What is 12 times 12?\nAnswer: <think>"
MARKERS = [{"part": "reasoning", "open": "<think>", "close": "</think>", "at_start": True}]
MAX_TOKENS = 24
LIMITS = [0, 1, 7, 12]
BASE = {"prompt": PROMPT, "markers": MARKERS, "max_tokens": MAX_TOKENS, "temperature": 0.8,
        "seed": 11, "ignore_eos": True, "logprobs": True}
EDITED = {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "bad_words": ["</"], "n": 2,
          "top_p": 0.95, "logprob_mode": "processed", "top_logprobs": 2}


def job(name, **fields):
    return json.dumps({"custom_id": name, **BASE, **fields})


JOBS = {
    "free": job("free", prompt_logprobs=True),
    **{f"limit {n}": job(f"limit {n}", max_reasoning_tokens=n) for n in LIMITS},
    "edited": job("edited", max_reasoning_tokens=5, **EDITED),
    "closed": job("closed", max_reasoning_tokens=3, prompt="Four <think></think> is",
                  max_tokens=10),
    "no markers": job("no markers", max_reasoning_tokens=3, markers="none"),
}


@pytest.fixture
def run(model, tmp_path):
    def one(name, jobs, *flags):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "jobs.jsonl").write_text("\n".join(jobs) + "\n")
        done = subprocess.run([program("millrace"), "run", "--model", model, "--input",
                               folder / "jobs.jsonl", "--output", folder / "out.jsonl", *flags],
                              check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (folder / "out.jsonl").exists(), done.stderr
        lines = (folder / "out.jsonl").read_text().splitlines()
        return {x["custom_id"]: x for x in map(json.loads, lines)}
    return one


def body(records, name):
    assert records[name]["error"] is None, records[name]["error"]
    return records[name]["response"]["body"]


def test_the_reasoning_ends_after_exactly_so_many_tokens(run):
    records = run("all", JOBS.values())
    free = body(records, "free")["choices"][0]
    closing = []
    for limit in LIMITS:
        told = body(records, f"limit {limit}")
        choice = told["choices"][0]
        ids = choice["token_ids"]
        first, end = choice["reasoning_spans"]
        closing = closing or ids[:end]
        assert (first, ids[limit:end]) == (0, closing) and len(ids) == MAX_TOKENS
        assert ids[:limit] == free["token_ids"][:limit], "draws before it are those without it"
        assert free["text"] == "" and (limit == 0) == (choice["reasoning"] == "")
        assert free["reasoning"].startswith(choice["reasoning"])
        assert "</think>" not in choice["reasoning"] + choice["text"] and choice["text"] != ""
        assert told["usage"]["completion_tokens"] == MAX_TOKENS
        assert told["usage"]["completion_tokens_details"] == {"reasoning_tokens": end}
        values = choice["logprobs"]["token"]
        assert len(values) == MAX_TOKENS and all(x <= 0 for x in values)
        assert min(values[limit:end]) < -2, "the model's own logprob of what it did not want"
    edited = body(records, "edited")["choices"]
    for choice in edited:  # a ban of the closing's first token forbids drawing it, no more
        assert choice["token_ids"][5:5 + len(closing)] == closing
        assert choice["logprobs"]["token"][5:5 + len(closing)] == [0] * len(closing)
    assert edited[0]["token_ids"] != edited[1]["token_ids"]
    assert "reasoning" not in body(records, "closed")["choices"][0]
    error = records["no markers"]["error"]
    assert error["code"] == "invalid_value"
    assert error["message"].startswith("max_reasoning_tokens is 3, but no markers")


def test_the_answer_is_that_of_a_prompt_with_the_same_tokens(run):
    records = run("limited", [JOBS["free"], JOBS["limit 7"]])
    prompt = body(records, "free")["prompt_token_ids"]
    limited = body(records, "limit 7")["choices"][0]
    end = limited["reasoning_spans"][1]
    more = json.dumps({"custom_id": "rest", **BASE, "prompt": prompt + limited["token_ids"][:end],
                       "markers": "none", "max_tokens": MAX_TOKENS - end})
    rest = body(run("rest", [more]), "rest")["choices"][0]
    assert rest["token_ids"] == limited["token_ids"][end:]
    assert rest["logprobs"]["token"] == limited["logprobs"]["token"][end:]


def test_alone_and_in_company_the_tokens_are_the_same(run):
    others = [json.dumps({"custom_id": f"other {n}", "prompt": f"{n} ships", "max_tokens": 3 * n})
              for n in range(1, 9)]
    together = run("together", [*JOBS.values(), *others])
    alone = run("alone", JOBS.values(), "--max-batch", "1")
    for name in JOBS:
        if name != "no markers":
            assert body(alone, name)["choices"] == body(together, name)["choices"], name
