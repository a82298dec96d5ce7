"""Tests the profile of a step by kernel: its loads, its ways and its table. Nothing is timed."""
from made import guard
from lib import limits, profile, report, sides
from lib.run import Failed


def test_every_profiled_load_draws_long_enough_for_all_its_rows_to_draw_at_once():
    """Rows with a finished prompt draw while other prompts are computed, 430 tokens a step."""
    for shape in profile.SHAPES:
        alone = (shape.rows - 1) * shape.prompt / 430
        assert shape.output - alone >= 0.25 * shape.output, shape


PROFILE = {"decode_step_ms_mean": 10.0, "decode_launches_per_step": 7,
           "decode_kernels": [{"kernel": "matmul", "ms_per_step": 7.5, "launches_per_step": 4},
                              {"kernel": "tiny", "ms_per_step": 0.01, "launches_per_step": 1}]}


def test_a_steps_time_is_told_by_kernel():
    assert list(profile.phases(PROFILE)) == [
        ("decode", 10.0, 7, [("matmul", 7.5, 4), ("tiny", 0.01, 1)])]
    details = {**STEPS, **PROFILE, "prompt_kernels": [], "mark": "a mark"}
    text = report.profile_table({"8 x (1 + 1)": details}, WORK, PEAK)
    assert "| 8 x (1 + 1) | decode | **whole step** | 10.00 | 7 |  |  | a mark |" in text
    assert "| matmul | 7.50 | 4 | 75 | " in text
    assert "between kernels | 2.49" in text
    assert "tiny" not in text


def test_a_step_is_measured_whole_and_in_parts():
    asked = []

    class Ours:
        def measure(self, shape, *flags):
            asked.append((shape.name, flags))
            if len(asked) == 2:
                raise Failed("no parts")
            return sides.Speed(1, 1, 1, 0, PROFILE)

    class Speeds:
        guard = guard(memory=33.0)

        def side(self, _name):
            return Ours()
    out = {name: profile.details(rounds)
           for name, rounds in profile.measure(Speeds(), profile.QUICK).items()}
    first = profile.QUICK[0].name
    assert asked[:2] == [(first, ("--profile",)), (first, ("--profile", "--separate"))]
    assert out[first] == {**PROFILE, "memory_gbytes_per_s": 33.0, "mark": ""}
    assert out[first + ", layers in parts"] == {"failure": "no parts"}
    assert len(out) == 2 * len(profile.QUICK)


WORK = limits.Work(layer_weights=100, output_weights=20, weight_bytes=60, kv_values=3,
                   query_values=5, gate_up_weights=60, gate_up_bytes=30, output_bytes=10)
# The rate of each is a thousand a second, so that a unit takes a millisecond.
PEAK = {"peak_dot_gops": 1e-6, "peak_fp32_gflops": 1e-6}
STEPS = {"memory_gbytes_per_s": 1e-6, "jobs": 4, "prompt": 9, "output": 2, "prompt_tokens": 36,
         "prompt_steps": 2, "prompt_kernels": [{"kernel": "gate_up"}],
         "decode_kernels": [{"kernel": "layers"}]}


def test_each_kernel_stands_beside_the_limit_it_runs_against():
    prompt = limits.kernel_limits(STEPS, "prompt", WORK, PEAK)
    assert prompt["gate_up"] == 2 * 18 * 60
    assert prompt["matmul"] == 2 * 18 * 40 + 2 * 2 * 20
    assert prompt["attention"] == 4 * 18 * 5 * 5  # a token sees 5 of 9 keys on average
    decode = limits.kernel_limits(STEPS, "decode", WORK, PEAK)
    # The layers are one launch, so only the output matrix remains.
    assert decode["matmul"] == 2 * 4 * 20
    assert decode["attention"] == 4 * 4 * 10 * 5
    assert decode["layers"] == 2 * 4 * 100 + decode["attention"]


def test_memory_is_the_limit_where_reading_takes_longer():
    slow = {**STEPS, "memory_gbytes_per_s": 1e-9, "mark": ""}
    decode = limits.kernel_limits(slow, "decode", WORK, PEAK)
    assert decode["gate_up"] == 30e3
    assert decode["matmul"] == 10e3
    assert decode["attention"] == 4 * 10 * 3 * 2 * 1e3
    details = {**PROFILE, **slow, "decode_kernels": PROFILE["decode_kernels"]}
    text = report.profile_table({"4 x (9 + 2)": {**details, "prompt_kernels": []}}, WORK, PEAK)
    assert "| matmul | 7.50 | 4 | 75 | 30000.00 | 400000 |" in text
