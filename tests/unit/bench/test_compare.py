"""Tests how bench/compare reads the output of the peers, and its rows. Nothing here is timed."""
import itertools
import json
import os
import types

import pytest

from made import ROOT, fast, guard, rounds_of
from lib import checks, limits, plot, report, run, shapes, sides, speed, verdict
from lib.run import Failed
from lib.shapes import EIGHT, EXACT, FULL, LONGER, OURS, SAME_FILE, Shape

WORK = limits.Work(layer_weights=100, output_weights=20, weight_bytes=60, kv_values=3)
PEAK = {"peak_dot_gops": 1e-6, "peak_read_gbytes_per_s": 1e-6, "peak_fp32_gflops": 1e-6,
        "peak_dot_instruction": "avx2"}


LLAMA_LINE = ('{"n_kv_max": 2304, "pp": 128, "tg": 128, "pl": 8, "n_kv": 2048, "t_pp": 0.5, '
              '"speed_pp": 2048.0, "t_tg": 2.0, "speed_tg": 512.0, "t": 2.5, "speed": 819.2}')


def test_llamas_line_is_found_among_its_log():
    result = sides.parse_llama(EIGHT, f"llama_context: ...\n\n{LLAMA_LINE}\n\nllama_perf: ...\n")
    assert (result["speed_pp"], result["speed_tg"], result["speed"]) == (2048.0, 512.0, 819.2)


@pytest.mark.parametrize("text", ["", "main: error", f"{LLAMA_LINE}\n{LLAMA_LINE}\n"])
def test_llamas_output_without_one_result_is_a_failure(text):
    with pytest.raises(Failed, match="printed . results"):
        sides.parse_llama(EIGHT, text)


def test_llamas_result_of_another_shape_is_a_failure():
    with pytest.raises(Failed, match="another shape"):
        sides.parse_llama(FULL, LLAMA_LINE)


def openvino_result(steps):
    return {"prompt_s": 2.0, "total_s": 4.0, "step_ends_ms": [1000 + 100 * i for i in range(steps)],
            "step_tokens": [8] * steps}


def test_generation_speed_is_that_of_the_steps_in_which_all_rows_draw():
    got = sides.of_times(Shape(8, 100, 11), openvino_result(6), foreign=0)
    assert got.prompt == 400
    assert got.generate == 80
    assert got.total == 8 * 111 / 4


def test_rows_that_hardly_ever_draw_at_once_are_a_failure():
    with pytest.raises(Failed, match="in 3 steps only"):
        sides.of_times(EIGHT, openvino_result(4), 0)


@pytest.mark.parametrize("drawn, expected", [
    ([2, 4, 4, 4, 2], (2, 0.3)),  # the first step with all four held the last prompts
    ([4, 4], (1, 0.1)), ([4], (0, 0.0)), ([2, 2], (0, 0.0)),
    ([4, 4, 3, 4], (1, 0.1))])
def test_full_steps_of_openvinos_record(drawn, expected):
    times = [0.0, 100.0, 200.0, 400.0, 500.0][:len(drawn)]
    steps, seconds = sides.full_steps(4, times, drawn)
    assert (steps, seconds) == (expected[0], pytest.approx(expected[1]))


def test_json_is_found_behind_a_log():
    assert run.json_in('{not json\nlog line\n{\n "a": 1\n}\n') == {"a": 1}
    with pytest.raises(Failed, match="no JSON"):
        run.json_in("log line\n")


def test_a_program_that_fails_says_which_and_why():
    with pytest.raises(Failed, match="sh failed with 3: .*torn"):
        run.run(["sh", "-c", "echo torn >&2; exit 3"])
    with pytest.raises(Failed, match="no-such-program"):
        run.run(["no-such-program"])
    with pytest.raises(Failed, match="more than 0.05 s"):
        run.run(["sleep", "5"], timeout_s=0.05)


def test_busy_ticks_leave_out_idle_and_waiting():
    assert run.busy_ticks("cpu  1 2 4 1000 2000 8 16 32 0 0\ncpu0 ...") == 1 + 2 + 4 + 8 + 16 + 32


def test_a_child_that_still_runs_is_no_stranger(monkeypatch):
    before = sum(os.times()[:2])
    assert before - 0.02 <= run.cpu_seconds(os.getpid()) <= sum(os.times()[:2]) + 0.02
    seconds = iter([5.0, 7.0])
    monkeypatch.setattr(run, "cpu_seconds", lambda pid: next(seconds) if pid == 42 else None)
    known, unknown = run.Watch(42), run.Watch()
    assert known.used() - known.own >= 2 + unknown.used() - unknown.own - 0.5


def test_openvino_gets_the_prompts_of_engine_bench():
    """The formula is in C++ and in Python; both must give the same ids."""
    source = (ROOT / "bench/engine/engine_bench.cpp").read_text()
    assert "1000 + (index * 7919 + i * 104729) % (vocabulary - 1000)" in source
    peer = (ROOT / "bench/lib/openvino_run.py").read_text()
    assert "* 7919" in peer and "* 104729" in peer and "% 2**32) % (vocabulary - 1000)" in peer


class Side:
    """A side that gives the speeds of a list in turn, or fails."""

    def __init__(self, log, name, answers):
        self.log, self.name, self.answers = log, name, list(answers)

    def measure(self, shape):
        self.log.append(self.name)
        answer = self.answers.pop(0)
        if isinstance(answer, Failed):
            raise answer
        return answer


def speeds_of(log, **answers):
    def make(name, _model):
        if isinstance(answers[name], Failed):
            raise answers[name]
        return Side(log, name, answers[name])
    return speed.Speeds("model", guard(), make, say=lambda text: None)


AB = Shape(8, 128, 128, ("a", "b"))


def test_sides_alternate_and_a_shape_is_measured_once():
    log = []
    speeds = speeds_of(log, a=[fast(1, 1), fast(3, 5), fast(2, 2)], b=[fast(4, 4)] * 3)
    rounds = speeds.measure(AB, 3)
    assert log == ["a", "b", "b", "a", "a", "b"]
    assert speeds.measure(AB, 5) is rounds and len(log) == 6
    got = speed.typical(rounds.of("a"))
    assert (got.prompt, got.generate) == (2, 2)


@pytest.mark.parametrize("shape, most", [(EIGHT, 2), (shapes.LONG_FOUR, 4)])
def test_a_speed_row_needs_its_rounds_whatever_the_run_asks_for(shape, most):
    row = next(row for row in verdict.ROWS if (row.shape, row.speed) == (shape, "generate"))
    for wanted, holds, said in ((most, None, f"unproven; {most} of {most + 1} rounds count"),
                                (most + 1, True, "yes")):
        speeds = speeds_of([], **{side: [fast(100, 100 if side == OURS else 1)] * wanted
                                  for side in shape.sides})
        got = verdict.judge(row, {shape: speeds.measure(shape, wanted)})
        assert got["holds"] is holds and f"| {said} |" in report.verdict_table([got])


def test_a_side_that_cannot_be_made_fails_once_for_every_shape():
    log = []
    speeds = speeds_of(log, a=Failed("cannot be installed"), b=[fast(4, 4)] * 4)
    other = Shape(1, 128, 128, ("a", "b"))
    for shape in (AB, other):
        rounds = speeds.measure(shape, 2)
        assert rounds.failures == {"a": "cannot be installed"} and rounds.sides() == ["b"]
    assert log == ["b"] * 4


def test_a_run_that_others_disturbed_is_repeated():
    runs = [fast(100, 10), fast(10, 1, foreign=0.5), fast(102, 12), fast(101, 11)]
    rounds = speeds_of([], a=runs).measure(Shape(8, 128, 128, ("a",)), 3)
    assert speed.typical(rounds.of("a")).prompt == 101 and rounds.mark == ""


def test_shares_of_the_limits():
    # 1,000 prompt tokens a second, of 2 x (100 + 20 / 10) = 204 operations each.
    shape = Shape(2, 10, 4)
    got = limits.shares(shape, fast(2, 4), WORK, 1e-6, 1e-6)
    assert got == {"prompt_dots": 41, "generate_dots": 96,
                   # two steps a second of 60 + 2 x 12 x 3 x 2 = 204 bytes
                   "generate_reads": 41}
    assert limits.shares(shape, fast(2, 4), WORK, 0, 1e-6)["prompt_dots"] is None


def test_the_model_files_work():
    model = run.last_line([ROOT / "ops/model"])
    work = limits.work_of(model)
    assert work.layer_weights == 30 * (576 * 960 + 576 * 576 + 3 * 576 * 1536)
    assert work.output_weights == 49152 * 576
    assert work.kv_values == 30 * 2 * 192
    assert 90e6 < work.weight_bytes < 100e6


def test_wide_products_are_those_of_many_columns_in_integers():
    kernels = {"kernels": [
        {"kernel": name, "math": math, "columns": columns, "gflops_percent_of_dot_peak": percent}
        for name, math, columns, percent in (("a", "fast", 512, 71), ("b", "fast", 64, 20),
                                             ("c", "exact", 512, 12), ("d", "fast", 128, 69))]}
    kernels["kernels"].append({"kernel": "attention", "gflops_percent_of_dot_peak": 9})
    assert limits.wide_products(kernels) == [("a", 71), ("d", 69)]


@pytest.mark.parametrize("percents, others, holds", [
    ((70, 80), 0.0, True), ((60, 80), 0.0, False), ((60, 80), 0.5, None), ((60, 103), 0.0, None)])
def test_kernels_measured_on_a_busy_machine_prove_nothing(monkeypatch, percents, others, holds):
    rows = [{"kernel": f"k{p}", "gflops_percent_of_dot_peak": p, "math": "fast", "columns": 128}
            for p in percents]
    monkeypatch.setattr(limits, "measure", lambda only_peak: {**PEAK, "kernels": rows,
                                                              "others": others})
    row = checks.kernels(types.SimpleNamespace())
    assert row["holds"] is holds and row["ours"] == percents[0]
    assert f"others {others:.0%}" in row["what"]


def test_a_check_that_fails_says_so_in_its_row(monkeypatch):
    def broken(_context):
        raise Failed("no queue_load")
    monkeypatch.setitem(checks.CHECKS, "submits", broken)
    row = checks.measure("submits", None)()[0]
    assert (row["holds"], row["failure"]) == (None, "no queue_load")
    assert "| submits | failed |" in report.check_table([row])


def context_of(rounds=3, **parts):
    return types.SimpleNamespace(model="m", rounds=lambda usual, quick=1: rounds, guard=guard(),
                                 **parts)


def sampler_run(penalties, top5, doubt=0.5):
    def figures(cost):
        return {"step_ms": 20.0, "cost_percent": cost, "cost_percent_low": cost - doubt,
                "cost_percent_high": cost + doubt}
    ours = {"plain": figures(0), "penalties": figures(1), "all_penalties": figures(penalties),
            "top5_logprobs": figures(top5), "rounds": 12, "steps": 8, "arrangements": 5}
    return run.Output(json.dumps(ours), 1.0, 0.0)


@pytest.mark.parametrize("given, holds", [((1, 2.4), True), ((3.6, 2), False), ((1, 3.6), False),
                                          ((1, 2.8), None), ((3.2, 1), None), ((1, 2, 4), None)])
def test_the_samplers_cost_is_that_of_the_dearer(monkeypatch, given, holds):
    monkeypatch.setattr(checks, "run", lambda *_: sampler_run(*given))
    row = checks.sampler(context_of())()
    assert (row["ours"], row["holds"]) == (max(given[:2]), holds)


def test_a_sampler_measured_while_the_memory_changed_proves_nothing(monkeypatch):
    monkeypatch.setattr(checks, "run", lambda *_: sampler_run(1, 2))
    context, readings = context_of(), iter([40.0] * 3 + [30.0] * 3 + [40.0] * 3)
    context.guard.probe.measure = lambda: next(readings)
    row = checks.sampler(context)()
    assert row["holds"] is None and row["mark"] == ("0 of 1 rounds count: the memory changed in 2")


@pytest.mark.parametrize("memory, holds", [((40.0,), True), ((40.0, 30.0), None)])
def test_start_is_measured_in_rounds_too(monkeypatch, memory, holds):
    monkeypatch.setattr(checks, "last_line", lambda *_, **__: "program")
    commands, readings = [], itertools.cycle(value for value in memory for _ in range(3))
    monkeypatch.setattr(checks, "run", commands.append)
    context = context_of()
    context.guard.probe.measure = lambda: next(readings)
    row = checks.start(context)()
    assert row["holds"] is holds and bool(row["mark"]) == (holds is None)
    assert [words[0] == "program" for words in commands][:4] == [False, True, False, True]


def test_exact_throughput_takes_the_ratio_within_its_rounds():
    log = []
    speeds = speeds_of(log, **{shapes.OURS_EXACT: [fast(300, 100)] * 3,
                               SAME_FILE: [fast(200, 50)] * 3})
    row = checks.measure("throughput", context_of(speeds=speeds))()[0]
    assert (row["ours"], row["peer"], row["holds"]) == ("400", "250", True)
    assert row["ratio"] == "held in 3 of 3 rounds, median 1.60"
    assert log == [*EXACT.sides, *EXACT.sides[::-1], *EXACT.sides]


def test_exact_throughput_without_llama_is_unproven_and_says_why():
    speeds = speeds_of([], **{shapes.OURS_EXACT: [fast(3, 1)] * 3,
                              SAME_FILE: Failed("no compiler")})
    row = checks.measure("throughput", context_of(speeds=speeds))()[0]
    assert row["holds"] is None and "no compiler" in row["failure"]


def test_the_page_says_what_failed_and_what_holds():
    rounds = rounds_of({OURS: [fast(9000, 3000, decode_launches_per_step=151.0),
                               fast(9100, 3100, decode_launches_per_step=151.0)]},
                       wanted=3, failures={SAME_FILE: "cmake\nfailed"})
    measured = {EIGHT: rounds}
    row = next(row for row in verdict.ROWS if row.what == "generated, 8 rows")
    lines = [verdict.judge(row, measured)]
    text = report.speed_section(measured, lines, WORK, PEAK).text("origin")
    assert text.startswith("## Prompts and generation\n\norigin\n")
    assert f"unproven; lacks {SAME_FILE}; 2 of 3 rounds count" in text
    assert "| 9050 (9000 to 9100) | 3050 (3000 to 3100) |" in text
    assert "| 151 | 40.0 | 2; 2 of 3 rounds count |" in text
    assert f"- Failed: {EIGHT.name}, {SAME_FILE}: cmake failed" in text
    assert "- Failed: x: y" in report.profile_section({"x": {"failure": "y"}}, WORK, PEAK).text("")


def test_rows_where_only_generation_is_judged_leave_out_the_run_of_prompts(monkeypatch):
    """No side runs the prompts alone, and llama.cpp copies one prompt."""
    commands = []

    def answer(command):
        commands.append([str(word) for word in command])
        return run.Output('{"pl": 4, "pp": 7000, "tg": 128, "speed_pp": 1, "speed_tg": 2, '
                          '"speed": 3, "generate_steps": 128, "prompt_tok_s": 1, '
                          '"generate_tok_s": 2, "total_tok_s": 3}', 1.0, 0.0)
    monkeypatch.setattr(sides, "run", answer)
    monkeypatch.setattr(sides, "last_line", lambda *_, **__: "program")
    monkeypatch.setattr(sides, "of_times", lambda *_: None)
    monkeypatch.setattr(sides, "vocabulary_of", lambda _: 49152)
    model = ROOT / "M.Q4_1.gguf"
    for shape in (shapes.LONG_FOUR, Shape(4, 7000, 128)):
        for side in (sides.Ours(None, model), sides.Llama("Q4_1", model),
                     sides.OpenVino("Q4_1", "f16", model)):
            side.measure(shape)
    told = ["--generation-only", "-pps", '"prompt_run": false']
    assert [word in " ".join(command) for word, command in zip(2 * told, commands)] == \
        3 * [True] + 3 * [False]


def test_bars_have_a_gap_where_a_side_did_not_run():
    measured = {EIGHT: rounds_of({OURS: fast(1, 2), SAME_FILE: fast(3, 4)}),
                FULL: rounds_of({OURS: fast(5, 6)})}
    assert plot.bars(measured, "generate") == {OURS: [2, 6], SAME_FILE: [4, None]}


def test_ik_data_says_where_it_comes_from():
    data = json.loads((ROOT / "bench/lib/ik_llama.json").read_text())
    assert "llama-batched-bench" in data["source"]
    assert all(len(row[side]) == len(data["formats"]) for row in data["rows"]
               for side in ("llama.cpp", "ik_llama.cpp"))


@pytest.mark.parametrize("groups, files, cores", [
    ("0::/", {"cpu.max": "max 100000"}, []),
    ("0::/pod/box", {"pod/box/cpu.max": "400000 100000", "cpu.max": "150000 100000"}, [4, 1.5]),
    ("0::/of the host", {"cpu.max": "50000 100000"}, [.5]),
    ("7:memory:/\n4:cpu,cpuacct:/pod", {"cpu/pod/cpu.cfs_quota_us": "250000",
                                        "cpu/pod/cpu.cfs_period_us": "100000",
                                        "cpu/cpu.cfs_quota_us": "-1",
                                        "cpu/cpu.cfs_period_us": "100000"}, [2.5]),
])
def test_peers_get_as_many_cores_as_the_quota_pays_for(tmp_path, groups, files, cores):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert list(run.quotas(tmp_path)) == cores
    assert run.usable_cores(tmp_path) >= 1
