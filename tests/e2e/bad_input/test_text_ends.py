"""How texts end and what they are taken apart by, from a line to a line, by the real engine. The
model is forced: only the tokens of `allowed_token_ids` are drawn."""
import json
import subprocess
import threading

A = ord("A")  # the vocabulary begins with the bytes


def job(custom_id, **fields):
    return {"custom_id": custom_id, "prompt": "hello", "max_tokens": 12, "temperature": 0,
            "allowed_token_ids": [A], **fields}


JOBS = [
    job("length"),
    job("sequence", stop_token_sequences=[[A, A, A]]),
    job("included", stop_token_sequences=[[A, A]], include_stop_str_in_output=True),
    job("loop", repetition_detection={"max_pattern_size": 4, "min_count": 5}, logprobs=True),
    job("call", markers=[{"part": "tool_call", "open": "AAA"}]),
    job("reasoning", markers=[{"part": "reasoning", "open": "AA", "close": "AAAA"}], max_tokens=7),
    job("auto", markers="auto"),
]


def choices(records):
    return {r["custom_id"]: r["response"]["body"]["choices"][0] for r in records}


def test_every_end_has_its_reason_and_its_text(real_run):
    real_run.write([json.dumps(x) for x in JOBS])
    real_run.go(expect=0)
    got = choices(real_run.results().values())
    assert {k: (v["finish_reason"], v["text"]) for k, v in got.items()} == {
        "length": ("length", "A" * 12), "sequence": ("stop", ""), "included": ("stop", "AA"),
        "loop": ("repetition", "A" * 5), "call": ("length", ""), "reasoning": ("length", "A"),
        "auto": ("length", "A" * 12)}
    assert got["sequence"]["stop_reason"] == [A, A, A]
    assert got["sequence"]["token_ids"] == [A, A, A]
    assert len(got["loop"]["logprobs"]["token"]) == 5
    assert got["call"]["tool_calls"] == ["A" * 9]
    assert got["reasoning"]["reasoning"] == ""
    assert "reasoning" not in got["auto"] and "tool_calls" not in got["auto"]


def test_partials_joined_are_the_results(real_broker):
    real_broker.real_engine()
    watcher = subprocess.Popen(real_broker.command("results", "--follow", "--partial"),
                               stdout=subprocess.PIPE, text=True)
    lines, warm, done = [], threading.Event(), threading.Event()

    def read():
        for line in watcher.stdout:
            lines.append(json.loads(line))
            count = sum("response" in x for x in lines)
            if count >= 1:
                warm.set()
            if count > len(JOBS):
                done.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        submit = real_broker.folder / "warm.jsonl"
        submit.write_text(json.dumps(job("warm")) + "\n")
        real_broker.millrace("submit", str(submit), expect=0)
        assert warm.wait(60)  # from now on it watches
        submit = real_broker.folder / "jobs.jsonl"
        submit.write_text("".join(json.dumps({**x, "partials": True}) + "\n" for x in JOBS))
        real_broker.millrace("submit", str(submit), expect=0)
        assert done.wait(60)
    finally:
        watcher.terminate()
        watcher.wait(30)
        reader.join(30)
        watcher.stdout.close()
    results = choices(x for x in lines if "response" in x)
    joined = {}
    for line in lines:
        if line.get("object") != "millrace.partial":
            continue
        one = joined.setdefault(line["custom_id"], {"text": "", "token_ids": [], "tool_calls": []})
        assert line["first_token"] == len(one["token_ids"])
        one["text"] += line["text"]
        one["token_ids"] += line["token_ids"]
        one["tool_calls"] += line.get("tool_calls", [])
    assert set(joined) == {x["custom_id"] for x in JOBS}
    for name, one in joined.items():
        assert one["text"] == results[name]["text"]
        assert one["token_ids"] == results[name]["token_ids"]
        assert one["tool_calls"] == results[name].get("tool_calls", [])
