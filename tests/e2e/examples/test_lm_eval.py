"""examples/lm_eval_model.py: lm-evaluation-harness gives the same scores as with transformers, and
so do its own models that ask an OpenAI server.

The environment has torch and takes 6 GB of the cache folder.
"""
import json
import math
import os
import pathlib
import subprocess

import pytest
from client_place import BIN, PACKAGE, model_path
from own_python import own_python

pytestmark = pytest.mark.long
HERE = pathlib.Path(__file__).resolve().parent / "lm_eval"


@pytest.fixture
def environment(examples):
    path = os.pathsep.join(map(str, (examples, PACKAGE)))
    return {**os.environ, "PYTHONPATH": path, "MILLRACE_PROGRAMS": str(BIN), "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1"}  # on a busy machine, torch's threads wait mostly for each other


def run(environment, *words):
    done = subprocess.run([own_python(HERE), *words], env=environment, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def close(ours, theirs):
    """Sums of logprobs in float32: both round, and round differently."""
    return math.isclose(ours, theirs, rel_tol=1e-4, abs_tol=1e-3)


def test_scores_are_those_of_transformers(environment, tmp_path):
    told = run(environment, HERE / "evaluate_both.py", model_path(), BIN, tmp_path)
    found = json.loads(told.splitlines()[-1])
    ours, again, theirs, http = (
        found[name] for name in ("millrace", "again", "transformers", "http"))
    assert again["answers"] == ours["answers"] and found["computed_again"] == 0
    assert http["chat"]["answers"] == found["chat"]["answers"]

    for name, metric in (("millrace_sums", "acc,none"),
                         ("millrace_counting", "exact_match,stripped")):
        assert ours["figures"][name][metric] == theirs["figures"][name][metric]
        assert http["figures"][name][metric] == theirs["figures"][name][metric]
        assert 0 < ours["figures"][name][metric] < 1  # the task tells models apart
    figure = "bits_per_byte,none"
    for side in (ours, http):
        assert close(side["figures"]["millrace_pages"][figure],
                     theirs["figures"]["millrace_pages"][figure])
        assert side["answers"]["millrace_counting"] == theirs["answers"]["millrace_counting"]
    pairs = [pair for side in (ours, http) for name in ("millrace_sums", "millrace_pages")
             for pair in zip(flat(side["answers"][name]), flat(theirs["answers"][name]),
                             strict=True)]
    pairs += zip(flat(ours["long"]), flat(theirs["long"]), strict=True)
    assert len(pairs) == 2 * (12 * 4 * 2 + 12) + 3 + 2 * 2
    for mine, other in pairs:
        assert mine is other if isinstance(other, bool) else close(mine, other), (mine, other)
    assert True in flat(ours["answers"]["millrace_sums"])  # some answers are the greedy ones


def flat(values):
    """The numbers and truths in nested lists and maps, in order."""
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list):
        return [values]
    return [one for value in values for one in flat(value)]


def test_the_command_takes_the_options_of_the_harness(environment, examples, tmp_path):
    run(environment, "-c", "import pathlib, sys; sys.path.insert(0, sys.argv[1]); import tasks; "
        "tasks.write(pathlib.Path(sys.argv[2]), 4)", HERE, tmp_path)
    told = run(environment, examples / "lm_eval_model.py", "run", "--model", "millrace",
               "--model_args", f"model={model_path()},prefix_token=<|im_start|>,kv_memory=256MiB",
               "--tasks", "millrace_sums,millrace_counting", "--include_path", tmp_path)
    assert "millrace_sums" in told and "millrace_counting" in told and "exact_match" in told
    options = [examples / "lm_eval_model.py", "run", "--model", "millrace", "--model_args",
               f"model={model_path()},kv_memory=256MiB", "--include_path", tmp_path,
               "--apply_chat_template"]
    run(environment, *options, "--tasks", "millrace_counting", "--output_path", tmp_path / "out",
        "--log_samples")
    [samples] = (tmp_path / "out").rglob("samples_millrace_counting_*.jsonl")
    answers = [json.loads(line)["resps"][0][0] for line in samples.read_text().splitlines()]
    assert len(answers) == 4 and all(answers)
    refused = subprocess.run([own_python(HERE), *options, "--tasks", "millrace_sums"],
                             env=environment, text=True, capture_output=True)
    assert refused.returncode != 0 and "leave --apply_chat_template out" in refused.stderr
