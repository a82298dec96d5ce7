"""examples/label.py: both ways to read the labels' probabilities, and what it tells."""
import json
import math
import re

import pytest


def rows_of(told):
    return re.findall(r"^(positive|negative) +(\d\.\d{3}) ([ ?]) (.*)$", told, re.M)


@pytest.mark.parametrize("options", [(), ("--whole",)], ids=["first token", "whole labels"])
def test_labels_and_shares_are_printed(fleet, examples, options):
    told = fleet.told("label.py", examples / "data/reviews.jsonl", "--unsure", "0.7", *options)
    lines = (examples / "data/reviews.jsonl").read_text().splitlines()
    rows = rows_of(told)
    assert [row[3] for row in rows] == [json.loads(line)["text"][:70] for line in lines]
    assert all(0.5 <= float(row[1]) <= 1 and (row[2] == "?") == (float(row[1]) < 0.7)
               for row in rows)
    right = sum(row[0] == json.loads(line)["label"] for row, line in zip(rows, lines))
    assert f"\n{right} of {len(lines)} labels are right\n" in told
    assert right >= len(lines) - 1, told  # the test model knows these


def test_both_ways_give_the_same_bits(client, examples):
    import label
    prompts = [label.PROMPT.format(text=text) for text in ("I love it.", "It was broken.")]
    ids = label.first_tokens(client, prompts[0], ["positive", "negative"])
    rows = list(label.logprobs_of_first_tokens(client, prompts, ids))
    for prompt, row in zip(prompts, rows):
        for token, value in zip((" positive", " negative"), row):
            scored = client.generate(prompt + token, task="score").prompt_logprobs.token
            assert float(scored[-1]) == value
    assert rows[0][0] > rows[0][1] and rows[1][1] > rows[1][0]


def test_labels_that_begin_alike_are_scored_whole(client, examples):
    import label
    labels = ["positive", "positive and kind", "negative"]
    prompt = label.PROMPT.format(text="I love it.")
    ids = label.first_tokens(client, prompt, labels)
    assert ids[0] == ids[1] != ids[2]
    found = list(label.label(client, ["I love it.", "It was broken."], labels))
    assert [name for name, _ in found] == ["positive", "negative"]
    [row] = label.logprobs_of_whole_labels(client, [prompt], labels)
    assert math.isclose(sum(label.shares(row)), 1) and row[0] > row[1]
    assert math.isclose(found[0][1], label.shares(row)[0])
