"""Tests the rows of what KV policies cost hybrids and Gemma 4."""
import made  # noqa: F401  finds bench/
from lib import policies, report


def line(ours):
    return {"model": "qwen35", "policy": "k8v4", "kv": "q8g64/r4 x2", "positions": 504,
            "ours": ours, "ours_top1": .98, "f16": 1e-9, "f16_top1": 1.0, "expected": .001,
            "expected_top1": .98}


def test_a_policy_may_cost_what_its_codecs_cost_and_the_room():
    rows = policies.rows_of([line(.001), line(.0013), line(.00131)], 1.3)
    assert [row["holds"] for row in rows] == [True, True, False]
    assert rows[0]["headline"] == "KLD of 2 of 3 KV policies of 1.3 times the codecs' or less"
    text = report.check_section("policies", rows, []).text("")
    assert text.count("| yes |") == 2 and text.count("| NO |") == 1
    assert "qwen35, KV k8v4: mean KLD of 504 positions (KV f16 1e-09; top-1 98.0%, f16" in text
