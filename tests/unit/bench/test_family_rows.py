"""Tests the rows of the families' distance from the official classes."""
import made  # noqa: F401  finds bench/
from lib import families, report


def line(low, ratio, high, **more):
    return {"model": "qwen3", "type": "Q8_0", "positions": 2016, "ours": ratio / 1000,
            "llama_cpp": .001, "our_median": .0006, "llama_cpp_median": .0007, "our_top1": .95,
            "llama_cpp_top1": .94, "ratio": ratio, "low": low, "high": high} | more


def test_a_range_on_both_sides_of_the_limit_proves_nothing():
    lines = [line(.9, 1, 1.1), line(1, 1.05, 1.2), line(1.2, 1.3, 1.4)]
    rows = families.rows_of(lines)
    assert [row["holds"] for row in rows] == [True, None, False]
    assert rows[1]["ratio"] == "1.05 (1.00 to 1.20)"
    assert rows[0]["headline"] == "KLD of 1 of 3 files of 1.1 times llama.cpp's or less"
    text = report.check_section("families", rows, []).text("")
    assert text.count("| yes |") == text.count("| NO |") == text.count("| unproven |") == 1


def test_a_row_that_proves_nothing_reads_more_windows_until_it_does():
    calls = []

    def measure(*words):
        calls.append(words)
        return [line(1.02, 1.06, 1.09 if words[-1] == 16 else 1.11)]
    assert families.decided(line(.9, 1, 1.1), measure)["ratio"] == 1 and not calls
    assert families.decided(line(1.2, 1.3, 1.4), measure)["ratio"] == 1.3 and not calls
    assert families.decided(line(1, 1.05, 1.2), measure)["high"] == 1.09
    assert calls == [("qwen3", "--type", "Q8_0", "--times", 4),
                     ("qwen3", "--type", "Q8_0", "--times", 16)]
    given = line(1, 1.05, 1.2, model="Gemma 3 270M")  # there is no more of its text
    assert families.decided(given, measure) == given and len(calls) == 2
