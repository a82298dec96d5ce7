"""Tests a whole run of bench/compare: what one measure sees decides in the others, too."""
import importlib.machinery
import importlib.util
import types

import pytest

from made import ROOT, guard
from lib import checks, results


@pytest.fixture(scope="module")
def compare():
    loader = importlib.machinery.SourceFileLoader("compare", str(ROOT / "bench/compare"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    loader.exec_module(module)
    return module


def check(memory):
    """A check that holds, measured while the memory has this speed."""
    def measured(context):
        context.guard.probe.measure = lambda: memory
        rounds = context.guard.in_turns(["ours"], lambda side: 1.0, 3)

        def row():
            context.tables.append((f"a table at {memory}", ["memory"], [[memory]]))
            return {"what": f"at {memory}", "ours": 1, "required": "1", "mark": rounds.mark,
                    "holds": rounds.verdict(True), "runs": rounds.record()}
        return row
    return measured


def run(compare, monkeypatch, **speeds):
    """The sections and the raw content of a run whose measures see these speeds of memory."""
    for name, memory in speeds.items():
        monkeypatch.setitem(checks.CHECKS, name, check(memory))
    context = types.SimpleNamespace(guard=guard(), tables=[])
    sections, everything = compare.measure(types.SimpleNamespace(only=list(speeds)), context, {})
    return [section.text("") for section in sections], everything


MARK = "0 of 3 rounds count: the memory was slower than this machine's 40.0 GB/s in"


def test_a_section_in_a_slow_phase_says_so_once_the_run_has_seen_a_faster_one(
        compare, monkeypatch, capsys):
    texts, everything = run(compare, monkeypatch, prefix=20.0, start=40.0)
    assert f"| at 20.0 | 1 | - | - | 1 | unproven; {MARK} 3 |" in texts[0]
    assert "| at 40.0 | 1 | - | - | 1 | yes |" in texts[1]
    assert everything["prefix"][0]["holds"] is None and everything["prefix"][0]["runs"]["mark"]
    assert [text.count("a table at") for text in texts] == [1, 1]
    printed = capsys.readouterr().out
    assert printed.count("| at 20.0 |") == 2 and printed.count("| at 40.0 |") == 1


def test_a_section_in_a_slow_phase_after_a_fast_one_says_so_at_once(compare, monkeypatch, capsys):
    texts, _ = run(compare, monkeypatch, start=40.0, prefix=20.0)
    assert "| yes |" in texts[0] and f"unproven; {MARK} 6" in texts[1]
    assert capsys.readouterr().out.count("| at 20.0 |") == 1


def test_sections_of_one_phase_hold_and_are_printed_once(compare, monkeypatch, capsys):
    texts, _ = run(compare, monkeypatch, start=40.0, prefix=38.0)
    assert all("| yes |" in text for text in texts)
    assert capsys.readouterr().out.count("| yes |") == 2


def test_a_run_starts_from_the_recorded_level_and_saves_its_own(compare, monkeypatch, tmp_path):
    here = {"processor": "A", "cores": 1, "features": [], "memory_gib": 1, "commit": "c",
            "date": "2026-11-23"}
    for name, value in {"own_environment": lambda: None, "build": lambda *_: None,
                        "last_line": lambda *_: "model", "machine": lambda: here}.items():
        monkeypatch.setattr(compare, name, value)
    monkeypatch.setattr(compare.sys, "argv", ["bench/compare", "--save"])
    monkeypatch.setattr(results, "PAGES", tmp_path)
    monkeypatch.setattr(results, "RAW", tmp_path / "raw")
    known = []

    def measure(_given, context, _here):
        known.append(context.guard.memory.fastest)
        assert context.speeds.guard is context.guard
        context.guard.memory.saw(40.0 + len(known))
        return [], {}
    monkeypatch.setattr(compare, "measure", measure)
    for _ in range(2):
        compare.main()
    assert known == [0, 41.0] and results.recorded_memory(here) == 42.0
