"""The profile of a step by kernel: which loads, in which ways, and the page. Nothing is timed."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import profile, report, sides  # noqa: E402
from lib.run import Failed  # noqa: E402


def test_every_profiled_load_draws_long_enough_for_all_its_rows_to_draw_at_once():
    """Rows whose prompts are done draw while those of others are computed, 430 tokens a step."""
    for shape in profile.SHAPES:
        alone = (shape.rows - 1) * shape.prompt / 430
        assert shape.output - alone >= 0.25 * shape.output, shape


PROFILE = {"decode_step_ms_mean": 10.0, "decode_launches_per_step": 7,
           "decode_kernels": [{"kernel": "matmul", "ms_per_step": 7.5, "launches_per_step": 4},
                              {"kernel": "tiny", "ms_per_step": 0.01, "launches_per_step": 1}]}


def test_a_steps_time_is_told_by_kernel():
    assert list(profile.phases(PROFILE)) == [
        ("decode", 10.0, 7, [("matmul", 7.5, 4), ("tiny", 0.01, 1)])]
    text = report.profile_table({"8 x (1 + 1)": PROFILE})
    assert "| matmul | 7.50 | 4 | 75 |" in text
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
        def side(self, _name):
            return Ours()
    out = profile.measure(Speeds(), quick=True)
    first = profile.QUICK[0].name
    assert asked[:2] == [(first, ("--profile",)), (first, ("--profile", "--separate"))]
    assert out[first] == PROFILE
    assert out[first + ", layers in parts"] == {"failure": "no parts"}
    assert len(out) == 2 * len(profile.QUICK)
