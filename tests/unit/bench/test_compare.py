"""What bench/compare makes of its peers' output, and what it says of it. Nothing here is timed."""
import json
import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import checks, limits, plot, report, run, shapes, sides, speed  # noqa: E402
from lib import verdict  # noqa: E402
from lib.run import Failed  # noqa: E402
from lib.shapes import EIGHT, FULL, LONGER, OURS, SAME_FILE, Shape  # noqa: E402

WORK = limits.Work(layer_weights=100, output_weights=20, weight_bytes=60, kv_values=3)
PEAK = {"peak_dot_gops": 1e-6, "peak_read_gbytes_per_s": 1e-6, "peak_fp32_gflops": 1e-6,
        "peak_dot_instruction": "avx2"}


def fast(prompt, generate, foreign=0.0, **details):
    return sides.Speed(prompt, generate, prompt + generate, foreign, details)


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


def test_openvino_gets_the_prompts_of_engine_bench():
    """The formula stands in C++ and in Python; both must name the same ids."""
    source = (ROOT / "bench/engine/engine_bench.cpp").read_text()
    assert "1000 + (index * 7919 + i * 104729) % (vocabulary - 1000)" in source
    peer = (ROOT / "bench/lib/openvino_run.py").read_text()
    assert "* 7919" in peer and "* 104729" in peer and "% 2**32) % (VOCABULARY - 1000)" in peer


class Side:
    """Gives the speeds of a list in turn, or fails."""

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
    return speed.Speeds("model", make, say=lambda text: None)


def test_sides_alternate_and_runs_are_not_repeated():
    log = []
    speeds = speeds_of(log, a=[fast(1, 1), fast(3, 5), fast(2, 2)], b=[fast(4, 4)] * 3)
    speeds.measure(EIGHT, ("a", "b"), 2)
    assert log == ["a", "b", "a", "b"]
    speeds.measure(EIGHT, ("a", "b"), 3)
    assert log[4:] == ["a", "b"]
    got = speeds.table()[EIGHT]["a"]
    assert (got.prompt, got.generate) == (2, 2)


def test_a_side_that_fails_is_kept_with_its_reason_and_the_others_go_on():
    log = []
    speeds = speeds_of(log, a=Failed("cannot be installed"), b=[fast(4, 4), Failed("crashed")])
    speeds.measure(EIGHT, ("a", "b"), 3)
    assert speeds.failures == {(EIGHT, "a"): "cannot be installed", (EIGHT, "b"): "crashed"}
    assert log == ["b", "b"]  # not a third time
    assert list(speeds.table()[EIGHT]) == ["b"]


def test_runs_that_others_disturbed_count_only_where_there_are_no_better():
    runs = [fast(100, 10), fast(10, 1, foreign=0.5), fast(102, 12)]
    assert speed.typical(runs).prompt == 101
    assert speed.typical(runs).foreign == 0
    assert speed.typical([fast(10, 1, foreign=0.5)]).foreign == 0.5


def row_named(what):
    return next(row for row in verdict.ROWS if row.what == what)


def judged(what, failures=(), **speeds):
    row = row_named(what)
    return verdict.judge(row, {row.shape: speeds} if speeds else {}, set(failures))


def all_sides(ours, same, openvino):
    return {OURS: fast(ours, ours), SAME_FILE: fast(same, same),
            "llama.cpp Q4_0": fast(same * 1.5, same * 1.5),
            "llama.cpp Q8_0": fast(same, same), "OpenVINO Q4_1": fast(openvino, openvino),
            "OpenVINO Q4_0": fast(openvino - 1, openvino - 1)}


def test_a_row_holds_when_both_ratios_do():
    got = judged("prompt, 8 rows of 512", **all_sides(ours=1100, same=180, openvino=1000))
    assert (got["holds"], got["best_name"], got["best"]) == (True, "OpenVINO Q4_1", 1000)


@pytest.mark.parametrize("ours, same, openvino", [(1099, 180, 1000), (1100, 184, 900)])
def test_a_row_does_not_hold_when_one_ratio_does_not(ours, same, openvino):
    assert judged("prompt, 8 rows of 512", **all_sides(ours, same, openvino))["holds"] is False


def test_a_row_with_a_missing_peer_is_unproven_but_can_fail():
    speeds = all_sides(ours=1e6, same=180, openvino=1000)
    del speeds["OpenVINO Q4_1"]
    gone = (LONGER, "OpenVINO Q4_1")
    got = judged("prompt, 8 rows of 512", failures=[gone], **speeds)
    assert (got["holds"], got["missing"]) == (None, ["OpenVINO Q4_1"])
    speeds[OURS] = fast(1, 1)
    assert judged("prompt, 8 rows of 512", failures=[gone], **speeds)["holds"] is False


def test_a_row_proves_nothing_on_a_busy_machine():
    for ours in (1, 1e6):
        speeds = all_sides(ours, same=180, openvino=1000)
        speeds["OpenVINO Q4_1"].foreign = 0.4
        got = judged("prompt, 8 rows of 512", **speeds)
        assert (got["holds"], got["missing"]) == (None, ["a quiet machine"])


def test_a_row_without_ours_is_unproven():
    got = judged("generated, 1 row", **{SAME_FILE: fast(1, 1)})
    assert (got["holds"], got["missing"]) == (None, [OURS])
    assert judged("generated, 1 row")["missing"] == [OURS]


def test_the_default_kv_of_openvino_is_shown_but_not_the_best():
    speeds = all_sides(ours=2, same=1, openvino=2)
    speeds["OpenVINO Q4_1, its default KV"] = fast(1000, 1000)
    assert verdict.best_peer(LONGER, "prompt", speeds)[1] == 2


def test_ik_llama_enters_by_its_ratio_where_it_was_measured():
    speeds = {SAME_FILE: fast(100, 100), "llama.cpp Q4_0": fast(187, 187)}
    name, value = verdict.best_peer(shapes.ONE, "generate", speeds)
    assert (name, value) == ("ik_llama.cpp by its ratio", pytest.approx(233))
    assert verdict.best_peer(FULL, "generate", speeds) == ("llama.cpp Q4_0", 187)  # slower there
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


def test_shares_of_the_limits():
    # 2 x (100 + 20 / 10) = 204 operations a prompt token of 1,000 a second.
    shape, peak = Shape(2, 10, 4), PEAK
    got = limits.shares(shape, fast(2, 4), WORK, peak)
    assert got == {"prompt_dots": 41, "generate_dots": 96,
                   # two steps a second of 60 + 2 x 12 x 3 x 2 = 204 bytes
                   "generate_reads": 41}
    assert limits.shares(shape, fast(2, 4), WORK, {**peak, "peak_dot_gops": 0})[
        "prompt_dots"] is None


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
        raise Failed("no broker_bench")
    monkeypatch.setitem(checks.CHECKS, "submits", broken)
    row = checks.rows_of("submits", None)[0]
    assert (row["holds"], row["failure"]) == (None, "no broker_bench")
    assert "| submits | failed |" in report.check_table([row])


class Context:
    rounds = 1

    def __init__(self, speeds):
        self.speeds = speeds


def sampler_run(penalties, top5, foreign=0.0, doubt=0.5):
    def figures(cost):
        return {"step_ms": 20.0, "cost_percent": cost, "cost_percent_low": cost - doubt,
                "cost_percent_high": cost + doubt}
    ours = {"plain": figures(0), "penalties": figures(1), "all_penalties": figures(penalties),
            "top5_logprobs": figures(top5), "rounds": 12, "steps": 8, "arrangements": 5}
    return run.Output(json.dumps(ours), 1.0, foreign)


@pytest.mark.parametrize("given, holds", [((1, 2.4), True), ((3.6, 2), False), ((1, 3.6), False),
                                          ((1, 2, 0.5), None), ((1, 2.8), None),
                                          ((3.2, 1), None), ((1, 2, 0, 4), None)])
def test_the_samplers_cost_is_that_of_the_dearer(monkeypatch, given, holds):
    monkeypatch.setattr(checks, "run", lambda *_: sampler_run(*given))
    row = checks.sampler(types.SimpleNamespace(model="m", rounds=3))
    assert (row["ours"], row["holds"]) == (max(given[:2]), holds)


def test_exact_throughput_takes_llamas_runs_of_the_same_load():
    log = []
    speeds = speeds_of(log, **{shapes.OURS_EXACT: [fast(300, 100)], SAME_FILE: [fast(200, 50)]})
    row = checks.rows_of("throughput", Context(speeds))[0]
    assert (row["ours"], row["peer"], row["ratio"], row["holds"]) == (400, 250, 1.6, True)
    assert log == [shapes.OURS_EXACT, SAME_FILE]
    assert checks.rows_of("throughput", Context(speeds))[0]["holds"]
    assert len(log) == 2  # measured once, used twice


def test_exact_throughput_without_llama_is_unproven_and_says_why():
    speeds = speeds_of([], **{shapes.OURS_EXACT: [fast(3, 1)], SAME_FILE: Failed("no compiler")})
    row = checks.rows_of("throughput", Context(speeds))[0]
    assert row["holds"] is None and "no compiler" in row["failure"]


def test_the_page_says_what_failed_and_what_holds():
    measured = {EIGHT: {OURS: fast(9000, 3000, 0.3, decode_launches_per_step=151.0)}}
    failures = {(EIGHT, SAME_FILE): "cmake\nfailed"}
    lines = [verdict.judge(row_named("generated, 8 rows"), measured, failures)]
    here = {"processor": "P", "cores": 2, "features": ["avx2"], "commit": "c", "date": "d"}
    text = report.page(here, PEAK, lines, measured, failures, WORK, [], {"x": {"failure": "y"}})
    assert f"unproven; lacks {SAME_FILE}" in text
    assert "30% BUSY" in text and "| 151 |" in text
    assert f"- {EIGHT.name}, {SAME_FILE}: cmake failed" in text
    assert "- x: y" in text


def test_bars_have_a_gap_where_a_side_did_not_run():
    measured = {EIGHT: {OURS: fast(1, 2), SAME_FILE: fast(3, 4)}, FULL: {OURS: fast(5, 6)}}
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
