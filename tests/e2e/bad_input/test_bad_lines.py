"""With the real engine, every wrong line ends with its own error, and all others complete."""
import json

import pytest

from tiny_gguf import CONTEXT, TEMPLATE, TOKENS, tiny_gguf

GOOD = {"prompt": "hello", "max_tokens": 4}


def chat(**message):
    return {"messages": [message], "max_tokens": 2}


def job(**fields):
    return {"prompt": "p", "max_tokens": 2, **fields}


# (line, code, words of the message or hint)
LINES = [
    # prompts
    (job(prompt="x" * (CONTEXT + 100)), "context_exceeded", f"context of {CONTEXT} tokens"),
    (job(prompt="x" * (CONTEXT - 6), max_tokens=50), "context_exceeded", "lower max_tokens"),
    (job(prompt=""), "empty_prompt", "at least one token"),
    ({"tokens": []}, "empty_prompt", "at least one token"),
    ({"messages": []}, "empty_prompt", "at least one message"),
    ({"max_tokens": 1}, "missing_field", "one of prompt, tokens and messages"),
    (job(tokens=[1]), "invalid_value", "one of prompt, tokens and messages"),
    (job(prompt=5), "invalid_value", "prompt: must be a string"),
    ({"tokens": [1, len(TOKENS)]}, "invalid_token", f"tokens[1] is {len(TOKENS)}"),
    ({"tokens": [1, -2]}, "invalid_token", "tokens[1] is -2"),
    ({"tokens": [1.5]}, "invalid_token", "tokens[0] is 1.5"),
    (job(stop_token_ids=[99_999]), "invalid_token", "stop_token_ids[0] is 99999"),
    # chats
    (chat(content="x"), "missing_field", "messages[0].role"),
    (chat(role="user"), "missing_field", "messages[0].content"),
    ({"messages": "hi"}, "invalid_value", "messages: must be an array"),
    ({"messages": ["hi"]}, "invalid_value", "messages[0]: must be a map"),
    (chat(role="user", content=[{"type": "image_url"}]), "unsupported_field", "text"),
    # fields
    (job(stop=""), "invalid_value", "stop"),
    (job(stop=["a", ""]), "invalid_value", "stop"),
    (job(stop=["a"] * 65), "limit_exceeded", "the limit is 64"),
    (job(stop=5), "invalid_value", "stop: must be a string"),
    (job(stop_token_sequences=[[1], [1, 99_999]]), "invalid_token",
     "stop_token_sequences[1][1] is 99999"),
    (job(stop_token_sequences=[[]]), "invalid_value", "stop_token_sequences[0] is empty"),
    (job(stop_token_sequences=[[1] * 65]), "limit_exceeded", "the limit is 64"),
    (job(include_stop_str_in_output="yes"), "invalid_value",
     "include_stop_str_in_output: must be true or false, not a string, 'yes'"),
    (job(markers="all"), "invalid_value", "markers: unknown value"),
    (job(markers=[{"part": "song", "open": "<s>"}]), "invalid_value", "markers[0].part"),
    (job(markers=[{"part": "reasoning", "open": ""}]), "invalid_value", "markers[0].open is empty"),
    (job(repetition_detection={"max_pattern_size": 4, "min_count": 1}), "invalid_value",
     "give a number from 2 to 1024"),
    (job(repetition_detection={}), "missing_field", "repetition_detection.max_pattern_size"),
    (job(partials=1), "invalid_value",
     "partials: must be true or false, not a whole number, 1"),
    (job(n=128, max_tokens=100_000), "limit_exceeded", "n x max_tokens is 12800000"),
    (job(n=129), "limit_exceeded", "the limit is 128"),
    (job(n=0), "invalid_value", "n is 0"),
    (job(n=-1), "invalid_value", "n: -1 is negative"),
    (job(n=1.5), "invalid_value", "n: must be a whole number"),
    (job(n="2"), "invalid_value", "n: must be a whole number, not a string"),
    (job(n=10 ** 30), "invalid_value", "does not fit 64 bits"),
    (job(max_tokens=0), "invalid_value", "max_tokens is 0"),
    (job(min_tokens=3), "invalid_value", "min_tokens is 3, more than max_tokens, which is 2"),
    (job(top_logprobs=129), "limit_exceeded", "the limit is 128"),
    (job(top_p=2), "invalid_value", "give a number above 0 and up to 1"),
    (job(min_p=-1), "invalid_value", "min_p is -1"),
    (job(top_k=-1), "invalid_value", "top_k: -1 is negative"),
    (job(temperature=101), "invalid_value", "temperature is 101"),
    (job(seed=-1), "invalid_value", "seed: -1 is negative"),
    (job(priority=9), "invalid_value", "give a number from 0 to 4"),
    (job(max_attempts=0), "invalid_value", "max_attempts is 0"),
    (job(deadline_us=5), "deadline_passed", "in the past"),
    (job(deadline_us=-5), "invalid_value", "deadline_us"),
    (job(task="embed"), "unknown_task", "embed"),
    (job(metadata={"k": 5}), "invalid_value", "metadata.k"),
    (job(metadata={"k": "v" * 20_000}), "limit_exceeded", "the limit is 16384"),
    (job(custom_id="x" * 300), "limit_exceeded", "custom_id"),
    (job(kv="q8"), "unsupported_field", "kv"),
    (job(kv="k9v4"), "invalid_value", "turboquant-3.5"),
    (job(require_fingerprint="abc"), "fingerprint_mismatch", "fingerprint abc"),
    (job(frequency_penalty=2.5), "invalid_value", "frequency_penalty is 2.5"),
    (job(logit_bias={"5": 101}), "invalid_value", "logit_bias of token 5 is 101"),
    (job(logit_bias={"99999999": 1}), "invalid_token", "logit_bias[0] is 99999999"),
    (job(allowed_token_ids=[]), "invalid_value", "allowed_token_ids is empty"),
    (job(allowed_token_ids=[99999999]), "invalid_token", "allowed_token_ids[0] is 99999999"),
    (job(bad_words=[""]), "invalid_value", "bad_words[0] is empty"),
    (job(typical_p=0), "invalid_value", "typical_p is 0"),
    (job(dry_base=0.5), "invalid_value", "dry_base is 0.5"),
    (job(dry_base=1e39), "invalid_value", "dry_base: 1e39 is too large"),
    (job(dry_penalty_last_n=-1), "invalid_value", "dry_penalty_last_n: -1 is negative"),
    (job(dry_penalty_last_n=4097), "limit_exceeded",
     "dry_penalty_last_n is 4097, the limit is 4096"),
    (job(no_repeat_ngram_size=65), "limit_exceeded", "no_repeat_ngram_size is 65, the limit is 64"),
    (job(xtc_probability=1.5), "invalid_value", "give a number from 0 to 1"),
    (job(xtc_threshold=0.6), "invalid_value", "xtc_threshold is 0.6"),
    (job(frequency_penalty_window=-1), "invalid_value",
     "frequency_penalty_window: -1 is negative"),
    (job(presence_penalty_window=1_048_577), "limit_exceeded", "the limit is 1048576"),
    (job(repetition_penalty_scope="prompt"), "invalid_value", "unknown value 'prompt'"),
    (job(stop_token_ids=[1] * 1025), "limit_exceeded", "stop_token_ids has 1025 ids"),
    (job(logprob_token_ids=[1]), "invalid_value", "but logprobs of no token are asked for"),
    (job(logprobs=True, logprob_token_ids=[99_999]), "invalid_token",
     "logprob_token_ids[0] is 99999"),
    (job(logprobs=True, logprob_token_ids=[*range(129)]), "limit_exceeded", "the limit is 128"),
    (job(response_format={"type": "json_object"}), "unsupported_field", "response_format"),
    (job(best_of=3), "unsupported_field", "best_of"),
    ({**chat(role="user", content="x"), "tools": ["f"]}, "invalid_value", "tools[0]"),
    ({**chat(role="user", content="x"), "tool_choice": "required"}, "unsupported_field",
     "tool_choice"),
    ({**chat(role="user", content="x"), "chat_template_kwargs": {"tools": []}}, "invalid_value",
     "chat_template_kwargs.tools"),
    (job(tools=[{"type": "function"}]), "invalid_value", "tools has no meaning without messages"),
    ({**chat(role="user", content="x"), "add_special_tokens": False}, "invalid_value",
     "add_special_tokens has no meaning for messages"),
    # lines
    ({"custom_id": "x", "url": "/v1/images", "body": {}}, "invalid_value", "/v1/images"),
    ({"custom_id": "x", "url": "/v1/chat/completions"}, "missing_field", "body"),
    ({"custom_id": "x", "url": "/v1/chat/completions", "body": "x"}, "invalid_value", "body"),
    ('{"prompt":"p","temperature":NaN}', "invalid_json", "no NaN or Infinity"),
    ('{"prompt":"p","temperature":-Infinity}', "invalid_json", "no NaN or Infinity"),
    ('{"prompt":"p","temperature":1e400}', "invalid_value", "1e400"),
    ('{"prompt":"p"} {"prompt":"q"}', "invalid_json", "write one JSON object on each line"),
    ('{"prompt":"p","prompt":"q"}', "invalid_json", "twice"),
    ('{"prompt":"a\\ud800b"}', "invalid_json", "in pairs only"),
    (b'{"prompt":"\xff"}', "invalid_utf8", "byte 12"),
    ("[" * 100_000, "limit_exceeded", "nested"),
    ("null", "invalid_json", "not an object"),
    ("\0", "invalid_json", "column 1"),
    (b'{"prompt":"' + b"x" * (8 * 1024 * 1024 + 1) + b'"}', "too_large", "8388608"),
]


def test_every_wrong_line_says_what_is_wrong_and_the_others_complete(real_run):
    lines = []
    for line, _, _ in LINES:
        lines += [line if isinstance(line, (str, bytes)) else json.dumps(line), json.dumps(GOOD)]
    real_run.write(lines)
    done = real_run.go(expect=1)
    results = real_run.results()
    assert sorted(results) == list(range(1, 2 * len(LINES) + 1))
    for i, (line, code, words) in enumerate(LINES):
        error = results[2 * i + 1]["error"]
        assert error, line
        assert error["code"] == code, (line, error)
        assert words in error["message"] + error.get("hint", ""), (line, error)
        assert error.get("hint"), ("the error has no hint", line, error)
        assert error["line"] == 2 * i + 1
        assert results[2 * i + 2]["error"] is None, results[2 * i + 2]
    assert f"{len(LINES)} failed" in done.stdout
    assert f"and {len(LINES) - 10} more" in done.stdout, "failures not shown must be counted"


def test_control_characters_of_a_line_do_not_reach_the_terminal(real_run):
    real_run.write(['{"prompt": "p", "task": "\\u001b[31mred"}', "\x1b[2J\x07"])
    done = real_run.go(expect=1)
    assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert "\\x1b[31mred" in done.stdout


def test_a_sequence_larger_than_the_pool_is_refused_and_others_run(real_run):
    real_run.write([json.dumps(job(prompt="x" * 100, max_tokens=100)), json.dumps(GOOD)])
    real_run.go("--kv-memory", "8KiB", expect=1)
    results = real_run.results()
    assert results[1]["error"]["code"] == "kv_exceeded"
    assert "--kv-memory" in results[1]["error"]["hint"]
    assert results[2]["error"] is None


CHAT_TEMPLATES = [
    (None, "no_chat_template", "as text or tokens"),
    ("{{ raise_exception('roles must alternate') }}", "template_error", "roles must alternate"),
    ("{% for i in range(100000000) %}x{% endfor %}", "template_error", "line 1, column"),
    ("{% for i in range(9999) %}{% for j in range(9999) %}{% for k in range(9999) %}"
     "{% endfor %}{% endfor %}{% endfor %}", "template_error", "steps"),
    ("{% for m in %}", "template_error", "column 13"),
    ("{{ messages[5].content.foo }}", "template_error", "column 15"),
    ("{% include 'x' %}", "template_unsupported", "'include'"),
]


@pytest.mark.parametrize("template, code, words", CHAT_TEMPLATES,
                         ids=["none", "raises", "range", "loops", "syntax", "undefined", "include"])
def test_a_template_that_fails_fails_chats_alone(real_run, template, code, words):
    real_run.model.write_bytes(tiny_gguf(template=template))
    real_run.write([json.dumps(chat(role="user", content="hi")), json.dumps(GOOD)])
    real_run.go(expect=1)
    results = real_run.results()
    error = results[1]["error"]
    assert error["code"] == code and words in error["message"] + error.get("hint", ""), error
    assert results[2]["error"] is None


def test_a_role_that_the_template_does_not_know_or_refuses(real_run):
    strict = ("{% for m in messages %}{% if m['role'] == 'system' %}"
              "{{ raise_exception('no role ' + m['role']) }}{% endif %}{% endfor %}" + TEMPLATE)
    real_run.model.write_bytes(tiny_gguf(template=strict))
    real_run.write([json.dumps(chat(role=role, content="hi"))
                    for role in ("wizard", "system", "user")])
    real_run.go(expect=1)
    results = real_run.results()
    assert 'the role "wizard"' in results[1]["error"]["message"]
    assert "no role system" in results[2]["error"]["message"]
    assert results[3]["error"] is None


def test_unknown_fields_warn_and_strict_refuses(real_run):
    real_run.write([json.dumps(job(colour="red"))])
    real_run.go(expect=0)
    assert "'colour'" in real_run.output.read_text()
    real_run.go("--strict", "--restart", expect=1)
    assert real_run.results()[1]["error"]["code"] == "unknown_field"


def test_a_broker_passes_the_engines_refusals_on(real_broker):
    real_broker.real_engine()
    path = real_broker.folder / "jobs.jsonl"
    path.write_text("\n".join(map(json.dumps, [
        job(prompt="x" * 999), {"tokens": [70_000]}, job(prompt=""), job(n=0), GOOD])))
    done = real_broker.millrace("submit", str(path), "--wait", expect=1)
    errors = [json.loads(x)["error"] for x in done.stdout.splitlines()]
    assert sorted(e["code"] for e in errors if e) == [
        "context_exceeded", "empty_prompt", "invalid_token", "invalid_value"]
    assert errors.count(None) == 1


def test_a_broker_keeps_jobs_of_another_kv_policy_and_results_name_theirs(real_broker):
    real_broker.real_engine()
    path = real_broker.folder / "jobs.jsonl"
    path.write_text("\n".join(json.dumps(job(kv=kv)) for kv in ("f16", "f16/f16", "f16/f16 x1")))
    done = real_broker.millrace("submit", str(path), "--wait", expect=0)
    for line in done.stdout.splitlines():
        used = json.loads(line)["response"]["body"]["effective"]
        # One layer has keys and values of two heads of 16 halves.
        assert (used["kv_policy"], used["kv"]) == ("f16", "f16/f16 x1")
        assert (used["kv_bytes_per_token"], used["kv_compression"]) == (128, 1)
    path.write_text(json.dumps(job(kv="k5v3")))
    done = real_broker.millrace("submit", str(path), expect=0)
    assert "they run f16; start one with --kv k5v3" in done.stderr
    (engine,) = json.loads(real_broker.millrace("status", "--json").stdout)["engines"]
    assert engine["kv_policies"] == ["f16", "f16/f16 x1"]
    assert (engine["kv"], engine["kv_bytes_per_token"]) == ("f16/f16 x1", 128)
    for word in ("kv_policy=f16", "kv_bytes_per_token=128", "kv_compression=1"):
        assert word in real_broker.engine_log(), real_broker.engine_log()


def test_score_and_tokenize_name_the_line(real_run, call):
    scored = call("millrace", "score", "--model", real_run.model, "--ids",
                  text="[1, 2]\nnonsense\n[1, 70000]\n[]\n[3, 4]\n")
    assert scored.returncode == 1
    codes = [json.loads(x).get("error", {}).get("code") for x in scored.stdout.splitlines()]
    assert codes == [None, "invalid_value", "invalid_token", "empty_prompt", None]
    decoded = call("millrace", "tokenize", "--model", real_run.model, "--decode",
                   text="[97]\n[-1]\n[70000]\n")
    assert decoded.returncode == 1 and "a" in decoded.stdout
    assert "line 2" in decoded.stderr and "line 3" in decoded.stderr
