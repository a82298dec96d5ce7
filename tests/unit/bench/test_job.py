"""Tests what the whole-job measure gives its sides, and its row. Nothing here is timed."""
import json
import threading
import types

import pytest
from patience import PATIENCE_S

from made import fast, guard, rounds_of
from lib import chats, job
from lib.run import Failed


def test_the_system_prompt_is_the_first_that_has_as_many_tokens():
    words = [str(i) for i in range(1000)]
    text = chats.system_prompt(lambda texts: [3 * len(t.split()) // 2 for t in texts], words)
    assert text == " ".join(words[:267])
    with pytest.raises(Failed, match="fewer than 400"):
        chats.system_prompt(lambda texts: [1 for _ in texts], words)


def test_users_ask_at_different_lengths_about_different_places():
    words = chats.words_of(*chats.USER_TEXTS)
    asked = chats.user_prompts(512, words)
    lengths = {len(text.split()) for text in asked}
    assert len(set(asked)) == 512 and len(lengths) == 200
    assert max(lengths) - min(lengths) == 199
    assert asked == chats.user_prompts(512, words)


def answer(text, **other):
    return {"response": {"status_code": 200,
                         "body": {"choices": [{"message": {"content": text}}]}}, **other}


def test_answers_are_read_and_each_must_be_one(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(answer(text)) + "\n" for text in ("a b", None)))
    assert job.read_answers(path) == ["a b", ""]
    path.write_text(json.dumps(answer("a", error={"message": "no"})) + "\n")
    with pytest.raises(Failed, match="not answered"):
        job.read_answers(path)


def test_output_is_counted_in_the_same_way_whoever_wrote_it(monkeypatch):
    """Here a token is a word, or a line break within a text."""
    monkeypatch.setattr(chats, "token_counts", lambda _, lines: [len(x.split()) for x in lines])
    assert chats.output_tokens("m", ["one two", "three\n\nfour five\n", ""]) == 2 + 3 + 3

    def program(model, given, _folder):
        return job.Side(2.0, ["one two three"] * len(given), 0.0)
    for side in job.PROGRAMS:
        monkeypatch.setitem(job.PROGRAMS, side, program)
        assert job.whole_job(job.PROGRAMS[side], side, chats_of("a", "b"), "m") == \
            job.Done(2.0, 2, 6, 0.0)


def test_a_side_that_answers_too_few_has_failed():
    with pytest.raises(Failed, match="1 of 2 chats were answered"):
        job.whole_job(lambda *_: job.Side(1.0, ["a"], 0.0), "m", chats_of("a", "b"), "m")


FORMATS = {"llama-server": "llama.cpp Q4_0", "OpenVINO": "OpenVINO Q4_1"}


def rounds(*times, foreign=0.0, wanted=None, tokens=600):
    """times: the seconds of ours, llama-server and OpenVINO in each round."""
    sides = ("ours", "llama-server", "OpenVINO")
    return rounds_of({name: [job.Done(each[i], 64, tokens, foreign) for each in times]
                      for i, name in enumerate(sides)}, wanted)


@pytest.mark.parametrize("times, foreign, holds", [
    ((10, 50, 15), 0, True), ((10, 49, 15), 0, False), ((10, 50, 14.9), 0, False),
    ((10, 90, 30), 0.5, None)])
def test_both_ratios_must_hold_on_a_quiet_machine(times, foreign, holds):
    row = job.verdict(rounds(times, foreign=foreign), FORMATS, 64, {})
    assert row["holds"] is holds
    assert row["ours"] == "60"


def test_the_ratio_is_the_median_of_the_rounds():
    row = job.verdict(rounds((10, 40, 20), (10, 60, 20), (10, 70, 20)), FORMATS, 64, {})
    assert row["ratio"] == ("llama.cpp Q4_0: held in 2 of 3 rounds, median 6.00 (4.00 to 7.00); "
                            "OpenVINO Q4_1: held in 3 of 3 rounds, median 2.00")
    assert row["holds"] is True
    assert job.table(rounds((10, 40, 20)), FORMATS)[2][1] == [
        "llama-server (llama.cpp Q4_0)", "40.0", "64", "600", "15", "1.60"]


def test_the_ratio_is_of_output_not_of_time():
    """A peer that writes half as much in half the time is as fast."""
    done = rounds((10, 50, 15))
    done.tried[0].values["llama-server"].tokens = 300
    assert "median 10.00" in job.verdict(done, FORMATS, 64, {})["ratio"]


def test_a_peer_that_is_missing_leaves_the_row_unproven_but_it_can_fail():
    done = rounds((10, 50, 15))
    del done.tried[0].values["OpenVINO"]
    row = job.verdict(done, FORMATS, 64, {"OpenVINO": "not installed"})
    assert row["holds"] is None and "lacks OpenVINO" in row["what"]
    done = rounds((10, 20, 15))
    assert job.verdict(done, FORMATS, 64, {"llama.cpp Q8_0": "no"})["holds"] is False
    with pytest.raises(Failed, match="ours: broken"):
        job.verdict(rounds_of({"OpenVINO": job.Done(1, 1, 1, 0)}, failures={"ours": "broken"}),
                    FORMATS, 64, {})


def test_each_peer_runs_in_its_fastest_format_and_three_rounds_in_turns(monkeypatch):
    speeds = {"llama.cpp Q4_1": 1, "llama.cpp Q4_0": 3, "llama.cpp Q8_0": 2, "OpenVINO Q4_1": 5,
              "OpenVINO Q4_0": 4}
    log, asked = [], []

    def measure(shape, wanted):
        asked.append((shape, wanted))
        return rounds_of({name: fast(x, x) for name, x in speeds.items()})

    def whole(program, model, given, _own):
        log.append((program, model))
        return job.Done(10.0, len(given), 600, 0.0)
    monkeypatch.setattr(job, "chats", lambda _model, number: ["chat"] * number)
    monkeypatch.setattr(job, "quantized", lambda _model, kind: kind)
    monkeypatch.setattr(job, "whole_job", whole)
    context = types.SimpleNamespace(model="m", quick=False, guard=guard(), tables=[],
                                    rounds=lambda usual: usual,
                                    speeds=types.SimpleNamespace(measure=measure))
    row = job.job(context)()
    assert set(asked[0][0].sides) == set(speeds)  # the trial ran every format
    turn = [(job.ours, "m"), (job.llama_server, "Q4_0"), (job.openvino, "Q4_1")]
    assert log == turn + turn[::-1] + turn
    assert row["holds"] is False and len(context.tables[0][2]) == 3


class OneServer:
    """Replaces llama-server: answers chats, and lets those that say so wait until it ends."""

    def __init__(self, *_):
        self.ended, self.process = threading.Event(), self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.ended.set()

    def ask(self, messages):
        if messages[0]["content"] == "wait":
            self.ended.wait(PATIENCE_S)
            raise OSError("the server has ended")
        if messages[0]["content"] == "wrong":
            raise Failed("not understood")
        return {"choices": [{"message": {"content": "an answer"}}]}


def chats_of(*contents):
    return [[{"content": content}] for content in contents]


def test_a_server_runs_to_its_end_and_ends_at_once_when_one_chat_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "LlamaServer", OneServer)
    side = job.llama_server("m", chats_of("a", "b"), tmp_path)
    assert side.texts == ["an answer"] * 2
    assert len((tmp_path / "llama.jsonl").read_text().splitlines()) == 2
    with pytest.raises(Failed, match="not understood"):
        job.llama_server("m", chats_of("a", "wrong", "wait"), tmp_path)
