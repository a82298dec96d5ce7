"""`millrace check`: what would be refused, how many tokens there are, and how long it takes."""
import json
import re

from programs import completion, millrace

CHAT = json.dumps({"custom_id": "chat", "method": "POST", "url": "/v1/chat/completions",
                   "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}})


def test_bad_lines_are_named_with_hints_and_nothing_runs(tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("\n".join([CHAT, "bad", completion("a", "p"), '{"prompt": "p", "n": 0}',
                               completion("a", "p", unheard=1), '{"prompt": "plain"}']))
    done = millrace("check", str(jobs))
    assert done.returncode == 1, done.stderr
    assert "6 lines: 1 chat, 2 completions, 1 plain job" in done.stdout
    assert "2 lines would be refused:" in done.stdout
    assert re.search(r"  line 2: invalid_json: .+\n", done.stdout)
    assert re.search(r"  line 4: \w+: n\b.+\(.+\)|  line 4: \w+: .*\bn\b.*", done.stdout)
    assert "1 line has a warning; the first:\n  line 5 (a): " in done.stdout
    assert "1 line has the custom_id of an earlier line" in done.stdout
    assert sorted(x.name for x in tmp_path.iterdir()) == ["jobs.jsonl"]
    strict = json.loads(millrace("check", str(jobs), "--strict", "--json").stdout)
    assert (strict["refused"], [x["line"] for x in strict["errors"]]) == (3, [2, 4, 5])
    assert all(x["hint"] for x in strict["errors"][1:])


def test_standard_input_and_many_bad_lines(tmp_path):
    good = tmp_path / "good.jsonl"
    good.write_text(CHAT)
    done = millrace("check", str(good), "-", text="bad\n" * 30)
    assert "30 lines would be refused" in done.stdout
    assert "standard input line 1: " in done.stdout
    assert "and 20 more; all of them by code: 30 invalid_json" in done.stdout
    fine = millrace("check", str(good))
    assert (fine.returncode, "no line would be refused" in fine.stdout) == (0, True)


def test_a_model_counts_tokens_as_the_engine_does(model, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("\n".join([
        json.dumps({"tokens": list(range(1, 11)), "max_tokens": 7, "n": 2}), CHAT,
        json.dumps({"tokens": [1] * 8192}), json.dumps({"tokens": [10**6]})]))
    found = json.loads(millrace("check", str(jobs), "--model", model, "--json").stdout)
    assert [x["code"] for x in found["errors"]] == ["context_exceeded", "invalid_token"]
    assert [x["line"] for x in found["errors"]] == [3, 4]
    assert found["most_completion_tokens"] == 7 * 2 + 5
    chat_tokens = found["prompt_tokens"] - 10
    assert 10 < chat_tokens == found["longest_prompt_tokens"]
    output = tmp_path / "results.jsonl"
    millrace("run", "--model", model, "--input", str(jobs), "--output", str(output))
    usage = [json.loads(x) for x in output.read_text().splitlines()]
    (chat,) = [x["response"]["body"]["usage"] for x in usage if x["custom_id"] == "chat"]
    assert chat["prompt_tokens"] == chat_tokens


def test_an_estimate_runs_some_of_the_lines(model, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text((CHAT + "\n") * 20)
    done = millrace("check", str(jobs), "--model", model, "--estimate", "--max-batch", "4")
    assert done.returncode == 0, done.stderr
    assert re.search(r"about \d.* in all: 4 lines took \d+\.\d s", done.stdout)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["jobs.jsonl"]
    without = millrace("check", str(jobs), "--estimate")
    assert without.returncode == 2 and "--estimate needs --model" in without.stderr


def test_a_run_says_what_will_fail_before_its_engine_starts(run):
    run.write(["bad"] + [completion("a", "p")] * 4 + ['{"prompt": "p", "n": 0}'])
    run.env["STUB_DELAY_MS"] = "200"
    done = run.go(expect=1)
    assert "2 of 6 lines will fail; the first, line 1: invalid_json: " in done.stderr
    assert done.stderr.index("will fail") < done.stderr.index("the engine is ready")
    assert "will fail" not in run.go(expect=1).stderr, "a run that is done checks nothing"
