"""Tests the verdicts against the peers and their table. Nothing here is timed."""
import pytest

from made import fast, rounds_of
from lib import report, shapes, verdict
from lib.shapes import EIGHT, FULL, LONGER, OURS, SAME_FILE, Shape


def row_named(what):
    return next(row for row in verdict.ROWS if row.what == what)


def judged(what, failures=(), **speeds):
    row = row_named(what)
    return verdict.judge(row, {row.shape: rounds_of(speeds, failures=failures)} if speeds else {})


def all_sides(ours, same, openvino):
    return {OURS: fast(ours, ours), SAME_FILE: fast(same, same),
            "llama.cpp Q4_0": fast(same * 1.5, same * 1.5),
            "llama.cpp Q8_0": fast(same, same), "OpenVINO Q4_1": fast(openvino, openvino),
            "OpenVINO Q4_0": fast(openvino - 1, openvino - 1)}


def test_a_row_holds_when_both_ratios_do():
    got = judged("prompt, 8 rows of 512", **all_sides(ours=1100, same=180, openvino=1000))
    best = got["best"]
    assert (got["holds"], best.name, best.speed) == (True, "OpenVINO Q4_1", 1000)


@pytest.mark.parametrize("ours, same, openvino", [(1099, 180, 1000), (1100, 184, 900)])
def test_a_row_does_not_hold_when_one_ratio_does_not(ours, same, openvino):
    assert judged("prompt, 8 rows of 512", **all_sides(ours, same, openvino))["holds"] is False


def test_ratios_are_taken_within_rounds_and_their_median_decides():
    """The best peer is one side, the fastest by its median; the machine's speed cancels out."""
    ours, same, other = (100, 50, 80, 90, 100), (10, 5, 10, 10, 10), (120, 62, 100, 100, 124)
    rounds = {OURS: [fast(x, 1) for x in ours], SAME_FILE: [fast(x, 1) for x in same],
              "OpenVINO Q4_1": [fast(x, 1) for x in other]}
    got = judged("prompt, 7,000 tokens", **rounds)
    assert got["best"].ratios == [a / b for a, b in zip(ours, other)]
    assert got["holds"] is True  # 0.83, 0.81, 0.8, 0.9, 0.81
    text = report.verdict_table([got])
    assert "held in 5 of 5 rounds, median 0.81 (0.80 to 0.90), required 0.8 | yes |" in text
    rounds["OpenVINO Q4_1"][2:] = [fast(126, 1)] * 3
    got = judged("prompt, 7,000 tokens", **rounds)
    assert got["holds"] is False
    assert "held in 2 of 5 rounds, median 0.79 (0.63 to 0.83)" in report.verdict_table([got])


def test_a_row_with_a_missing_peer_is_unproven_but_can_fail():
    speeds = all_sides(ours=1e6, same=180, openvino=1000)
    del speeds["OpenVINO Q4_1"]
    gone = {"OpenVINO Q4_1": "not installed"}
    got = judged("prompt, 8 rows of 512", failures=gone, **speeds)
    assert (got["holds"], got["missing"]) == (None, ["OpenVINO Q4_1"])
    speeds[OURS] = fast(1, 1)
    assert judged("prompt, 8 rows of 512", failures=gone, **speeds)["holds"] is False


def test_a_row_without_rounds_that_count_proves_nothing():
    for ours in (1, 1e6):
        speeds = all_sides(ours, same=180, openvino=1000)
        speeds["OpenVINO Q4_1"].foreign = 0.4
        got = judged("prompt, 8 rows of 512", **speeds)
        assert (got["holds"], got["missing"]) == (None, [])
        assert "unproven; 0 of 1 rounds count: others had the cores in 1" in \
            report.verdict_table([got])


def test_a_row_without_ours_is_unproven():
    got = judged("generated, 1 row", **{SAME_FILE: fast(1, 1)})
    assert (got["holds"], got["missing"]) == (None, [OURS])
    assert judged("generated, 1 row")["missing"] == [SAME_FILE, OURS]


def test_the_default_kv_of_openvino_is_shown_but_not_the_best():
    speeds = all_sides(ours=2, same=1, openvino=2)
    speeds["OpenVINO Q4_1, its default KV"] = fast(1000, 1000)
    assert verdict.best_peer(LONGER, "prompt", rounds_of(speeds)).speed == 2


def test_ik_llama_enters_by_its_ratio_where_it_was_measured():
    rounds = rounds_of({OURS: fast(466, 466), SAME_FILE: fast(100, 100),
                        "llama.cpp Q4_0": fast(187, 187)})
    best = verdict.best_peer(shapes.ONE, "generate", rounds)
    assert (best.name, best.speed) == (verdict.IK_NAME, pytest.approx(233))
    assert best.ratios == [pytest.approx(2)]
    best = verdict.best_peer(FULL, "generate", rounds)
    assert (best.name, best.speed) == ("llama.cpp Q4_0", 187)  # slower there
    assert verdict.ik_ratio(LONGER, "prompt") is None


def test_shorter_runs_of_quick_stand_for_their_rows():
    assert verdict.alike(EIGHT, [Shape(8, 128, 64)]) == Shape(8, 128, 64)
    assert verdict.alike(EIGHT, [Shape(8, 128, 64), EIGHT]) == EIGHT
    assert verdict.alike(EIGHT, [Shape(8, 512, 64)]) is None
    quick = [verdict.alike(row.shape, shapes.QUICK) for row in verdict.ROWS]
    assert [row.what for row, shape in zip(verdict.ROWS, quick) if not shape] == [
        "generated, 4 rows of 7,000"]


def test_without_vnni_only_the_batch_rows_bind_at_the_best():
    rows = verdict.binding(verdict.ROWS, ["avx2", "avx512bw"])
    assert [row.what for row in rows] == [row.what for row in verdict.ROWS if row.shape.rows > 1]
    assert {(row.same_file, row.best) for row in rows} == {(0.0, 1.0)}
    assert verdict.binding(verdict.ROWS, ["avx512_vnni"]) == verdict.ROWS


def test_every_required_row_is_measured_on_the_sides_it_needs():
    for row in verdict.ROWS:
        assert row.shape in shapes.SHAPES
        assert {OURS, SAME_FILE, "OpenVINO Q4_1"} <= set(row.shape.sides)


def test_rows_of_7000_tokens_have_five_rounds():
    long = [shape for shape in [*shapes.SHAPES, *shapes.QUICK] if shape.prompt == 7000]
    assert len(long) == 3 and all(shape.rounds >= 5 for shape in long)
    assert all(shape.rounds >= 3 for shape in shapes.SHAPES)
