"""Jobs without a seed, on the real model: the same prompt, sampling and custom_id give the same
text, whatever else is asked about it, whatever the order of the file, by `run` and by `submit`."""
import json
import subprocess

import pytest
from patience import PATIENCE_S

from programs import program, wait_until

PROMPTS = ["The sea is", "A list of tools:", "def read(", "In the year 1907"]
WHICH_LOGPROBS = {"absent": None, "sampled": 0, "top 2": 2}


def lines(top):
    """The same eight requests; `top` says which logprobs they ask for, and nothing else differs."""
    made = []
    for number, prompt in enumerate(PROMPTS):
        asked = {} if top is None else {"logprobs": top}
        made.append(("/v1/completions", f"text-{number}", {"prompt": prompt, **asked}))
        asked = {} if top is None else {"logprobs": True, "top_logprobs": top}
        messages = [{"role": "user", "content": prompt}]
        made.append(("/v1/chat/completions", f"chat-{number}", {"messages": messages, **asked}))
    return [json.dumps({"custom_id": name, "method": "POST", "url": url,
                        "body": {**body, "max_tokens": 12, "temperature": 1.2}})
            for url, name, body in made]


def outcome(record):
    """Seed and text of one job, and the logprobs of its tokens where they were asked for."""
    body = record["response"]["body"]
    choice = body["choices"][0]
    text = choice["text"] if "text" in choice else choice["message"]["content"]
    logprobs = choice.get("logprobs")
    if logprobs is not None and "content" in logprobs:
        logprobs = {"token_logprobs": [x["logprob"] for x in logprobs["content"]]}
    return (body["millrace"]["effective"]["seed"], text,
            None if logprobs is None else logprobs["token_logprobs"])


def outcomes(text):
    records = [json.loads(x) for x in text.splitlines()]
    assert all(x["error"] is None for x in records), [x["error"] for x in records]
    return {x["custom_id"]: outcome(x) for x in records}


@pytest.fixture(scope="module")
def by_run(model, tmp_path_factory):
    """The outcomes of each choice of logprobs; every other file is in reverse order."""
    found = {}
    for index, (name, top) in enumerate(WHICH_LOGPROBS.items()):
        folder = tmp_path_factory.mktemp("run")
        jobs = lines(top)[::-1] if index % 2 else lines(top)
        (folder / "jobs.jsonl").write_text("\n".join(jobs) + "\n")
        subprocess.run([program("millrace"), "run", "--model", model, "--input",
                        folder / "jobs.jsonl", "--output", folder / "results.jsonl"],
                       check=True, capture_output=True, timeout=PATIENCE_S)
        found[name] = outcomes((folder / "results.jsonl").read_text())
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, (seed, text, logprobs) in wanted.items():
        assert found[name][:2] == (seed, text), name
        if found[name][2] is not None and logprobs is not None:
            assert found[name][2] == logprobs, name


def test_by_run_with_and_without_logprobs(by_run):
    wanted = by_run["top 2"]
    assert len(wanted) == 8 and len({text for _, text, _ in wanted.values()}) == 8
    assert len({seed for seed, _, _ in wanted.values()}) == 8
    assert all(len(logprobs) > 0 for _, _, logprobs in wanted.values())
    assert all(x[2] is None for x in by_run["absent"].values())
    for found in by_run.values():
        assert_same(found, wanted)


def test_by_submit_with_and_without_logprobs(by_run, broker, model):
    with open(broker.folder / "engine.log", "ab") as log:
        broker.processes.append(subprocess.Popen(
            [program("millrace-engine"), "--model", model, "--broker", broker.engines],
            stdout=log, stderr=log))
    wait_until(lambda: json.loads(broker.millrace("status", "--json").stdout)["engines"],
               "the engine's hello")
    for index, (name, top) in enumerate(WHICH_LOGPROBS.items()):
        path = broker.folder / f"{index}.jsonl"
        path.write_text("\n".join(lines(top)) + "\n")
        broker.millrace("submit", str(path), "--stream", f"s{index}", "--wait", expect=0)
        told = broker.millrace("results", f"s{index}", expect=0).stdout
        assert_same(outcomes(told), by_run[name])
