"""Tests the rows beside a busy process. Nothing here is timed."""
import contextlib
import os
import types

import pytest

from made import fast, guard, rounds_of
from lib import busy, report, run
from lib.run import Failed
from lib.shapes import BESIDE, IDLE, IDLE_ONE


def row_of(beside, **more):
    rounds = rounds_of({IDLE: [fast(1, 100)] * 3, BESIDE: [fast(1, beside)] * 3}, least=3, **more)
    return busy.row_of("generated, 1 row", "generate", rounds)


@pytest.mark.parametrize("beside, says", [(50, "yes"), (49, "NO")])
def test_half_of_the_idle_speed_is_required(beside, says):
    row = row_of(beside)
    assert row["ratio"].startswith("held in ") and row["peer"] == "100"
    assert f"| {says} |" in report.check_section("busy", [row], []).text("")


def test_a_side_that_fails_proves_nothing():
    row = row_of(100, failures={BESIDE: "no engine"})
    assert row["holds"] is None and "no engine" in row["failure"] and row["ours"] == "failed"


def test_the_other_process_is_busy_on_the_same_two_cores_and_ends():
    usual = os.sched_getaffinity(0)
    if len(usual) < 2:
        with pytest.raises(Failed, match="2 cores are needed"), busy.on_two_cores():
            pass
        return
    with busy.on_two_cores(), busy.busy_process() as process:
        assert os.sched_getaffinity(process) == os.sched_getaffinity(0) and \
            len(os.sched_getaffinity(process)) == 2
        before = run.cpu_seconds(process)
        while run.cpu_seconds(process) == before:
            pass  # it uses a core
    assert os.sched_getaffinity(0) == usual
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_the_busy_process_is_no_stranger(monkeypatch):
    class Ours:
        def measure(self, shape):
            return fast(1, 1, foreign=0.5)  # what the engine's own watch sees

    class Watch:
        def __init__(self, live=None):
            assert live

        def foreign(self):
            return 0.0
    monkeypatch.setattr(busy, "Watch", Watch)
    assert busy.measure(BESIDE, IDLE_ONE, Ours()).foreign == 0.0
    assert busy.measure(IDLE, IDLE_ONE, Ours()).foreign == 0.5


def test_sides_take_turns_and_each_load_is_measured_once(monkeypatch):
    ran = []
    monkeypatch.setattr(busy, "on_two_cores", lambda: contextlib.nullcontext())
    monkeypatch.setattr(busy, "measure",
                        lambda side, shape, _: ran.append((shape.rows, side)) or fast(4, 4))
    context = types.SimpleNamespace(guard=guard(), rounds=lambda usual: 2,
                                    speeds=types.SimpleNamespace(side=lambda _: None))
    rows = busy.busy(context)()
    assert len(rows) == len(busy.ROWS)
    assert ran[:4] == [(64, IDLE), (64, BESIDE), (64, BESIDE), (64, IDLE)]
    assert len(ran) == 3 * 4
