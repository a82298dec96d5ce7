"""What the whole-job measure gives its sides and makes of their answers. Nothing here is timed."""
import json
import pathlib
import sys
import threading

import pytest
from patience import PATIENCE_S

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import job  # noqa: E402
from lib.run import Failed  # noqa: E402


def test_the_system_prompt_is_the_first_that_has_as_many_tokens():
    words = [str(i) for i in range(1000)]
    text = job.system_prompt(lambda texts: [3 * len(t.split()) // 2 for t in texts], words)
    assert text == " ".join(words[:267])
    with pytest.raises(Failed, match="fewer than 400"):
        job.system_prompt(lambda texts: [1 for _ in texts], words)


def test_users_ask_at_different_lengths_about_different_places():
    words = job.words_of(*job.USER_TEXTS)
    asked = job.user_prompts(512, words)
    lengths = {len(text.split()) for text in asked}
    assert len(set(asked)) == 512 and len(lengths) == 200
    assert max(lengths) - min(lengths) == 199
    assert asked == job.user_prompts(512, words)


def answer(tokens, **other):
    return {"response": {"status_code": 200, "body": {"usage": {"completion_tokens": tokens}}},
            **other}


def test_answers_are_counted_and_every_chat_must_have_one(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(answer(n)) + "\n" for n in (3, 4)))
    assert job.read_answers(path, 2) == 7
    with pytest.raises(Failed, match="2 of 3"):
        job.read_answers(path, 3)
    path.write_text(json.dumps(answer(3, error={"message": "no"})) + "\n")
    with pytest.raises(Failed, match="not answered"):
        job.read_answers(path, 1)


def round_of(ours, llama, vino, foreign=0.0, answers=512):
    return {"ours": job.Side(ours, 512, 60000, foreign),
            "llama-server": job.Side(llama, answers, 60000), "OpenVINO": job.Side(vino, 512, 60000)}


@pytest.mark.parametrize("times, holds", [
    ((10, 50, 15), True), ((10, 49, 15), False), ((10, 50, 14.9), False),
    ((10, 90, 30, 0.5), None)])
def test_both_ratios_must_hold_on_a_quiet_machine(times, holds):
    row = job.verdict([round_of(*times)], 512)
    assert row["holds"] is holds
    assert row["ours"] == 51.2


def test_the_ratio_is_the_median_of_the_rounds():
    row = job.verdict([round_of(10, 40, 20), round_of(10, 60, 20), round_of(10, 70, 20)], 512)
    assert row["ratio"] == "6.00; OpenVINO 2.00" and row["holds"]


def test_a_peer_that_was_stopped_has_at_least_that_ratio():
    row = job.verdict([round_of(10, 55, 20, answers=100)], 512)
    assert row["ratio"] == "> 5.50; OpenVINO 2.00" and row["holds"]
    assert "llama-server 100 answers" in row["what"] and row["peer"] == 1.82
    row = job.verdict([round_of(10, 45, 20, answers=100)], 512)
    assert row["holds"] is False  # not long enough to tell


class OneServer:
    """In place of llama-server: answers the first chats, keeps the others waiting until it ends."""

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
        return {"usage": {"completion_tokens": 7}}


def chats_of(*contents):
    return [[{"content": content}] for content in contents]


def test_a_server_is_stopped_when_its_time_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "LlamaServer", OneServer)
    side = job.llama_server("m", chats_of("a", "b"), tmp_path, 60)
    assert (side.answers, side.tokens) == (2, 14) and side.seconds < 60
    side = job.llama_server("m", chats_of("a", "wait", "b", "wait"), tmp_path, 0.2)
    assert (side.answers, side.tokens) == (2, 14) and side.seconds >= 0.2
    assert len((tmp_path / "llama.jsonl").read_text().splitlines()) == 2
    with pytest.raises(Failed, match="not understood"):
        job.llama_server("m", chats_of("a", "wrong", "wait"), tmp_path, 60)
