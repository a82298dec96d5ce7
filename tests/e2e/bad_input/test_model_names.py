"""A model's id is its file's name, or the value of --model-name; its own name is only a label."""
import json

import pytest

from programs import completion
from tiny_gguf import tiny_gguf

JOBS = [completion("a", "hello", max_tokens=2), '{"prompt": "hello", "max_tokens": 2}',
        completion("b", "hello", max_tokens=2, model="tiny")]


def models_of(results):
    """Returns the model that each result names, in OpenAI's field or ours, and its settings."""
    out = set()
    for record in results.values():
        body = record["response"]["body"]
        effective = body.get("effective") or body["millrace"]["effective"]
        out |= {body["model"], effective["model"]}
    return out


@pytest.fixture
def named_run(real_run):
    real_run.model = real_run.folder / "Some-Model.v0.2.Q4_1.gguf"
    real_run.model.write_bytes(tiny_gguf({"general.name": "Some label \x1b[31mof its own"}))
    real_run.write(JOBS)
    return real_run


def test_results_name_the_file(named_run):
    done = named_run.go(expect=0)
    assert models_of(named_run.results()) == {"Some-Model.v0.2.Q4_1"}
    warned = named_run.results()[3]["response"]["body"]["millrace"]["warnings"]
    assert warned == ['the job names model "tiny", but "Some-Model.v0.2.Q4_1" ran']
    assert r"model Some-Model.v0.2.Q4_1 (Some label \x1b[31mof its own), kv f16" in done.stderr
    log = (named_run.folder / "results.jsonl.millrace" / "engine.log").read_text()
    (line,) = [x for x in log.splitlines() if "engine ready" in x]
    assert "model=Some-Model.v0.2.Q4_1 " in line and "Some label" in line


def test_a_given_name_is_the_id_and_cannot_change(named_run):
    named_run.go("--model-name", "house/tiny", expect=0)
    assert models_of(named_run.results()) == {"house/tiny"}
    named_run.write([*JOBS[:2], "nonsense"])
    named_run.go("--restart", "--model-name", "house/tiny", expect=1)
    refused = named_run.go("--model-name", "another", expect=3).stderr
    assert '--model-name was "house/tiny" when this run began and is "another" now' in refused
    refused = named_run.go("--model-name", "*", expect=2).stderr
    assert "usage: --model-name * cannot be a model's id" in refused


def test_jobs_name_the_id_and_status_shows_the_label(real_broker, tmp_path):
    real_broker.real_engine("--model-name", "house/tiny")
    told = real_broker.millrace("status", expect=0).stdout
    assert "  model house/tiny  " in told and "\n  label tiny\n" in told
    (engine,) = json.loads(real_broker.millrace("status", "--json").stdout)["engines"]
    assert (engine["model"], engine["label"]) == ("house/tiny", "tiny")
    jobs = tmp_path / "jobs.jsonl"
    for model, code in (("house/tiny", 0), ("*", 0), ("tiny", 1)):
        jobs.write_text(completion("a", "hello", max_tokens=2, model=model) + "\n")
        done = real_broker.millrace("submit", str(jobs), "--wait")
        assert done.returncode == code, done.stderr
        (line,) = map(json.loads, done.stdout.splitlines())
        if code == 0:
            assert line["response"]["body"]["model"] == "house/tiny"
        else:
            assert line["error"]["code"] == "unknown_model"
