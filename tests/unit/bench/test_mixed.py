"""Tests the rows of the model in Q4_K_M."""
import pytest

from made import fast, rounds_of
from lib import mixed, report
from lib.shapes import MIXED_FILE, MIXED_ONE, OURS, OURS_MIXED


def row_of(rounds):
    return mixed.row_of("generated, 1 row", MIXED_ONE, "generate", rounds)


def sides(own):
    return {OURS_MIXED: [fast(1, x, decode_launches_per_step=214.0) for x in (90, 96, 100)],
            MIXED_FILE: [fast(1, 50)] * 3, OURS: [fast(1, own)] * 3}


@pytest.mark.parametrize("own, says", [(105, "yes"), (108, "NO")])
def test_a_mixed_file_must_nearly_reach_our_own_format(own, says):
    row = row_of(rounds_of(sides(own), least=3))
    assert f"| {says} |" in report.check_section("mixed", [row], []).text("")
    assert row["ours"] == "96 (90 to 100)" and "(214 launches a decode step)" in row["what"]


def test_a_mixed_file_stands_beside_llama_and_our_own_format():
    row = row_of(rounds_of(sides(100), least=3))
    assert row["ratio"] == ("our Q4_1 (100): held in 3 of 3 rounds, median 0.96 (0.90 to 1.00); "
                            "llama.cpp: 1.92 (1.80 to 2.00)")
    assert row["headline"] == ("Q4_K_M, generated, 1 row: 0.96 times our Q4_1 and 1.92 times "
                               "llama.cpp")


@pytest.mark.parametrize("gone", [OURS_MIXED, OURS])
def test_without_either_of_our_sides_the_row_proves_nothing(gone):
    left = {side: runs for side, runs in sides(100).items() if side != gone}
    row = row_of(rounds_of(left, failures={gone: "no quantizer"}, least=3))
    assert row["holds"] is None and "no quantizer" in row["failure"]
    assert "| unproven |" in report.check_section("mixed", [row], []).text("")
    assert (row["ours"] == "failed") == (gone == OURS_MIXED)
