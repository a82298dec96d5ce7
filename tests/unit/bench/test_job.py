"""What the whole-job measure gives its sides and makes of their answers. Nothing here is timed."""
import json
import pathlib
import sys

import pytest

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


def round_of(ours, llama, vino, foreign=0.0):
    return {"ours": job.Side(ours, 512, 60000, foreign),
            "llama-server": job.Side(llama, 512, 60000), "OpenVINO": job.Side(vino, 512, 60000)}


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
