"""Tests what `bench/compare --model` measures and requires. Nothing here is timed."""
import subprocess
import sys
import types

import pytest

from made import ROOT, fast, guard, rounds_of
from lib import phase, plans, report, results, run, shapes, sides, speed, verdict
from lib.run import Failed, Refused
from lib.shapes import FILE_EIGHT, FILE_ONE, LLAMA_FILE, OPENVINO_FILE, OURS

REFUSAL = "OpenVINO GenAI 1 refuses M.gguf: IndexError"


def judged(what, refused=(), **speeds):
    row = next(row for row in plans.FILE_ROWS if row.what == what)
    rounds = rounds_of({side: [speed] * 3 for side, speed in speeds.items()},
                       failures=dict.fromkeys(refused, REFUSAL), least=3)
    rounds.refused = set(refused)
    return verdict.judge(row, {row.shape: rounds})


def three(ours, llama, openvino):
    return {OURS: fast(1, ours), LLAMA_FILE: fast(1, llama), OPENVINO_FILE: fast(1, openvino)}


@pytest.mark.parametrize("speeds, holds", [
    ((130, 100, 100), True), ((129, 100, 100), False), ((130, 10, 109), False)])
def test_both_peers_on_the_same_file_are_required(speeds, holds):
    got = judged("generated, 1 row", **three(*speeds))
    assert got["holds"] is holds and got["best"].name == OPENVINO_FILE


def test_a_peer_that_refuses_the_file_is_not_required_but_named():
    speeds = three(130, 100, 1)
    del speeds[OPENVINO_FILE]
    got = judged("generated, 1 row", refused=[OPENVINO_FILE], **speeds)
    assert got["holds"] is True and not got["missing"] and "best" not in got
    assert f"| {OPENVINO_FILE}: refuses the file | - | yes |" in report.verdict_table([got])
    gone = judged("generated, 1 row", refused=[LLAMA_FILE], **{OURS: fast(1, 1)})
    assert gone["holds"] is None and gone["missing"] == [LLAMA_FILE]


def test_a_refusal_is_asked_for_once_and_told_once():
    log = []

    class Side:
        def __init__(self, name):
            self.name = name

        def measure(self, shape):
            log.append((shape.rows, self.name))
            if self.name == OPENVINO_FILE:
                raise Refused(REFUSAL)
            return fast(2, 2)
    speeds = speed.Speeds("model", guard(), lambda name, _: Side(name), say=lambda text: None)
    measured = {shape: speeds.measure(shape, 3) for shape in (FILE_ONE, FILE_EIGHT)}
    assert [entry for entry in log if entry[1] == OPENVINO_FILE] == [(1, OPENVINO_FILE)]
    section = report.speed_section(measured, [], None, {
        "peak_dot_gops": 1, "peak_dot_instruction": "a", "peak_fp32_gflops": 1}, "M")
    text = section.text("")
    assert text.startswith("## Prompts and generation: M\n")
    assert text.count(f"- Failed: {OPENVINO_FILE}: {REFUSAL}") == 1
    assert text.count("| refuses the file | refuses the file |") == 2


def test_what_openvino_says_of_a_file_that_it_cannot_read_is_a_refusal(monkeypatch):
    monkeypatch.setattr(sides, "last_line", lambda *_, **__: "python")
    monkeypatch.setattr(sides, "vocabulary_of", lambda _: 7)
    monkeypatch.setattr(sides, "run", lambda _: run.Output(
        '{"refused": "IndexError: at", "version": "1"}', 1.0, 0.0))
    side = sides.OpenVino(None, "f16", ROOT / "M.gguf")
    with pytest.raises(Refused, match="OpenVINO GenAI 1 refuses M.gguf: IndexError: at"):
        side.measure(FILE_ONE)
    assert "refused" not in rounds_of({}).failures and phase.Rounds([], 1).refused == set()


def test_a_file_is_measured_as_it_is(monkeypatch):
    monkeypatch.setattr(sides, "last_line", lambda *_, **__: "program")
    monkeypatch.setattr(sides, "vocabulary_of", lambda _: 7)
    path = ROOT / "any.gguf"
    plan = plans.of_file(path)
    assert plan.name == "any"
    assert all(plan.make(name, path).model == path for name in shapes.FILE_SIDES)


def test_every_required_row_of_a_file_is_measured_on_all_sides():
    for row in plans.FILE_ROWS:
        assert row.shape in shapes.FILE_SHAPES
        assert set(row.shape.sides) == {OURS, row.same, *row.peers}
    quick = [verdict.alike(row.shape, shapes.FILE_QUICK) for row in plans.FILE_ROWS]
    assert [row.what for row, shape in zip(plans.FILE_ROWS, quick) if not shape] == [
        "prompt, 8 rows of 512"]


def test_a_model_is_a_file_or_a_name(tmp_path, monkeypatch):
    path = tmp_path / "M.gguf"
    path.touch()
    assert plans.file_of(str(path)) == path
    with pytest.raises(Failed, match="no such file.*or one of the names qwen3-0.6b, "):
        plans.file_of(str(tmp_path / "other.gguf"))
    asked = []
    monkeypatch.setattr(plans, "last_line", lambda command: asked.append(command) or str(path))
    for name, command in plans.NAMED.items():
        assert plans.file_of(name) == path
        assert asked[-1] == [ROOT / command, name] and (ROOT / command).exists()


def test_only_speed_and_profile_measure_any_model():
    done = subprocess.run([sys.executable, ROOT / "bench/compare", "--model", "x", "--only", "kv"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "--only knows speed, profile of --model, not kv" in done.stderr


def test_a_models_sections_stand_beside_those_of_the_test_model(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "PAGES", tmp_path)
    monkeypatch.setattr(results, "RAW", tmp_path / "raw")
    here = {"processor": "A", "cores": 1, "features": [], "memory_gib": 1, "commit": "c",
            "date": "2026-11-23"}
    for model in ("", "one", "two", "one"):
        section = report.Section("speed", ["x"], [], {}, model)
        page, _ = results.save(here, "bench/compare", [section], {}, lambda stem: None)
    titles = [line for line in page.read_text().split("\n") if line.startswith("## ")]
    assert titles == ["## Prompts and generation", "## Prompts and generation: one",
                      "## Prompts and generation: two"]


def test_quick_and_judged_choose_among_the_shapes():
    def chosen(plan, **options):
        return plan.chosen(types.SimpleNamespace(**({"quick": False, "judged": False} | options)))
    assert chosen(plans.TEST_MODEL) == shapes.SHAPES
    assert chosen(plans.TEST_MODEL, quick=True) == shapes.QUICK
    assert chosen(plans.TEST_MODEL, judged=True) == shapes.JUDGED
    assert chosen(plans.of_file(ROOT / "M.gguf"), quick=True) == shapes.FILE_QUICK


def test_many_rows_of_a_slow_model_all_draw_at_once(monkeypatch):
    """A step holds at least 64 tokens of prompts, so the last prompt ends before the first row."""
    for shape in (shapes.FILE_FULL, shapes.FILE_QUICK[-1]):
        assert shape.headroom >= shape.rows * shape.prompt / 64
    commands = []
    monkeypatch.setattr(sides, "run", lambda command: commands.append(command) or run.Output(
        '{"generate_steps": 128, "prompt_tok_s": 1, "generate_tok_s": 2, "total_tok_s": 3}', 1, 0))
    for shape in (shapes.FILE_FULL, FILE_ONE):
        plans.FILE_SIDES[OURS](ROOT / "M.gguf").measure(shape)
    assert commands[0][-2:] == ["--headroom", 192] and "--headroom" not in commands[1]
    assert commands[1][-2:] == ["--kv-memory", "4GiB"]
    assert "scheduler.cache_size = 4  # GB" in (ROOT / "bench/lib/openvino_run.py").read_text()
