"""How texts end and how markers split them, from input line to output line, with the real engine.
`allowed_token_ids` forces the model to draw only certain tokens."""
import json
import math
import struct
import subprocess
import threading

import wire
import zmq
from patience import PATIENCE_S

A, B = ord("A"), ord("B")  # token ids: the vocabulary begins with the bytes


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
# Only two tokens can be drawn; the job also asks for logprobs of a third, which is ruled out.
MASKED = job("masked", allowed_token_ids=[A, B], logprobs=True, top_logprobs=3,
             prompt_logprobs=True, logprob_mode="processed", logprob_token_ids=[B, B + 1])


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


def expect_masked(tokens, drawn, prompt, none):
    """Checks logprobs as flat lists; `none` gives the form of -infinity and of a missing one."""
    missing, ruled_out = none
    assert len(drawn["token"]) == len(tokens) == 12
    for i, token in enumerate(tokens):
        ids, values = drawn["top_ids"][3 * i:3 * i + 3], drawn["top_logprobs"][3 * i:3 * i + 3]
        assert token in (A, B) and set(ids[:2]) == {A, B}
        assert drawn["token"][i] == values[ids.index(token)]
        assert abs(math.exp(values[0]) + math.exp(values[1]) - 1) < 1e-5
        listed = drawn["listed_logprobs"][2 * i:2 * i + 2]
        assert listed[0] == values[ids.index(B)]
        assert ruled_out(values[2]) and ruled_out(listed[1])
    for key in ("token", "top_logprobs", "listed_logprobs"):
        apart = len(prompt[key]) // len(prompt["token"])
        assert all(map(missing, prompt[key][:apart]))  # nothing comes before the first token
        assert all(x < 0 for x in prompt[key][apart:])  # the model's own rule nothing out


def test_what_is_ruled_out_has_no_logprob_in_a_line(real_run):
    real_run.write([json.dumps(MASKED)])
    real_run.go(expect=0)
    body = real_run.results()[1]["response"]["body"]
    choice = body["choices"][0]
    absent = [lambda x: x is None] * 2
    expect_masked(choice["token_ids"], choice["logprobs"], body["prompt_logprobs"], absent)


def unpacked(logprobs):
    """Converts a message's logprobs to the form of an output line."""
    def numbers(kind, raw):
        return struct.unpack(f"<{len(raw) // 4}{kind}", raw)
    return {"token": numbers("f", logprobs["token"]), "top_ids": numbers("I", logprobs["top_ids"]),
            "top_logprobs": numbers("f", logprobs["top_logprobs"]),
            "listed_logprobs": numbers("f", logprobs["listed"]["logprobs"])}


def test_what_is_ruled_out_is_minus_infinity_in_a_message(real_broker):
    real_broker.real_engine()
    submit = real_broker.folder / "jobs.jsonl"
    submit.write_text(json.dumps(MASKED) + "\n")
    real_broker.millrace("submit", str(submit), "--wait", expect=0)
    with zmq.Context() as context:
        peer = wire.Peer(context, real_broker.clients, role="client")
        try:
            peer.join()
            result = wire.read_all(peer)[0]["body"]["result"]
        finally:
            peer.socket.close()
    choice = result["choices"][0]
    tokens = struct.unpack("<12I", choice["tokens"])
    expect_masked(tokens, unpacked(choice["logprobs"]), unpacked(result["prompt_logprobs"]),
                  (math.isnan, lambda x: x == -math.inf))


def test_partials_are_parts_of_the_results(real_broker):
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
        assert warm.wait(PATIENCE_S)  # now the reader is subscribed
        submit = real_broker.folder / "jobs.jsonl"
        submit.write_text("".join(json.dumps({**x, "partials": True}) + "\n" for x in JOBS))
        real_broker.millrace("submit", str(submit), expect=0)
        assert done.wait(PATIENCE_S)
    finally:
        watcher.terminate()
        watcher.wait(PATIENCE_S)
        reader.join(30)
        watcher.stdout.close()
    results = choices(x for x in lines if "response" in x)
    joined = {}
    for line in lines:
        if line.get("object") != "millrace.partial":
            continue
        tokens = results[line["custom_id"]]["token_ids"]
        assert tokens[line["first_token"]:][:len(line["token_ids"])] == line["token_ids"]
        one = joined.setdefault(line["custom_id"], {"text": "", "token_ids": [], "tool_calls": []})
        assert line["first_token"] >= len(one["token_ids"])  # the broker may drop some
        if line["first_token"] == len(one["token_ids"]):
            one["text"] += line["text"]
            one["token_ids"] += line["token_ids"]
            one["tool_calls"] += line.get("tool_calls", [])
    assert joined
    for name, one in joined.items():
        assert results[name]["text"].startswith(one["text"])
        if one["token_ids"] == results[name]["token_ids"]:
            assert one["text"] == results[name]["text"]
            assert one["tool_calls"] == results[name].get("tool_calls", [])
