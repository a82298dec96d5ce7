"""Tests the rows of the model in Q4_K_M."""
from made import fast, rounds_of
from lib import mixed, report
from lib.shapes import MIXED_FILE, MIXED_ONE, OURS, OURS_MIXED


def test_mixed_files_stand_beside_llama_and_our_own_format():
    rounds = rounds_of({OURS_MIXED: [fast(1, x, decode_launches_per_step=214.0) for x in (90, 100)],
                        MIXED_FILE: [fast(1, 50)] * 2, OURS: [fast(1, 200)] * 2})
    row = mixed.row_of("generated, 1 row", MIXED_ONE, "generate", rounds)
    assert row["ratio"] == ("llama.cpp: 1.90 (1.80 to 2.00); our Q4_1 (200): 0.47 (0.45 to 0.50)")
    assert row["ours"] == "95 (90 to 100)" and "(214 launches a decode step)" in row["what"]
    text = report.check_section("mixed", [row], []).text("")
    assert text.count("| - | - |") == 1  # the row has no requirement, so no verdict
    gone = rounds_of({OURS: fast(1, 2)}, failures={OURS_MIXED: "no quantizer"})
    row = mixed.row_of("generated, 1 row", MIXED_ONE, "generate", gone)
    assert row["ours"] == "failed" and "no quantizer" in row["failure"]
    assert "| unproven |" in report.check_section("mixed", [row], []).text("")
