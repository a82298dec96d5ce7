"""Tests the guard of rows that read memory, with made-up memory. Nothing here is timed."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import phase  # noqa: E402
from lib.run import Failed  # noqa: E402


class Machine:
    """A machine with memory of the speed `memory(n)` after n turns; a round has two turns. Memory
    limits side "a", arithmetic limits side "b"."""

    def __init__(self, memory, foreign=lambda turns: 0):
        self.memory, self.others, self.order, self.breaks = memory, foreign, [], {}
        self.guard = phase.Guard(lambda: self.memory(self.turns), lambda: self)

    @property
    def turns(self):
        return len(self.order)

    def foreign(self):
        return self.others(self.turns)

    def side(self, name):
        self.order.append(name)
        if self.turns >= self.breaks.get(name, 1000):
            raise Failed(f"{name} broke")
        return self.memory(self.turns) if name == "a" else 20.0

    def run(self, wanted, **options):
        return self.guard.in_turns(["a", "b"], self.side, wanted, **options)


def test_on_a_steady_machine_sides_take_turns_and_the_probe_runs_between_them():
    machine = Machine(lambda turns: 40.0)
    rounds = machine.run(3)
    assert machine.order == ["a", "b", "b", "a", "a", "b"]
    assert [one.reads for one in rounds.tried] == [[40.0] * 3] * 3
    assert (len(rounds.counted), rounds.mark, rounds.proven) == (3, "", True)
    assert rounds.ratios("a", "b") == [2.0] * 3 and rounds.level == 40.0


def test_ratios_are_those_of_the_fast_phase_however_long_the_slow_one_was():
    """After nine rounds in a slow phase comes a fast one: the figures leave out the slow rounds."""
    machine = Machine(lambda turns: 30.0 if turns <= 18 else 45.0)
    rounds = machine.run(12)
    assert len(rounds.tried) == 9 + 1 + 12 and len(rounds.counted) == 12
    assert set(rounds.ratios("a", "b")) == {2.25}
    assert rounds.mark == "" and rounds.level == 45.0


def test_a_phase_that_ends_leaves_the_rounds_in_it_and_says_what_is_missing():
    machine = Machine(lambda turns: 45.0 if turns <= 7 else 30.0)
    rounds = machine.run(5)
    assert len(rounds.tried) == 10  # at most twice as many as wanted
    assert rounds.ratios("a", "b") == [2.25] * 3 and rounds.proven
    assert rounds.mark == ("3 of 5 rounds count: the memory changed in 1, the memory was slower "
                           "than this machine's 45.0 GB/s in 6")


def test_a_row_wholly_in_a_slow_phase_does_not_count_on_a_machine_that_was_faster():
    """The machine had 40 GB/s in an earlier row, and in this row's rounds 20 GB/s."""
    machine = Machine(lambda turns: 40.0 if turns <= 6 else 20.0)
    assert machine.run(3).mark == ""
    machine.order.append("between the rows")
    rounds = machine.run(5)
    assert [one.level for one in rounds.tried] == [20.0] * 10
    assert all(one.steady and not one.busy for one in rounds.tried)
    assert rounds.mark == ("0 of 5 rounds count: the memory was slower than this machine's "
                           "40.0 GB/s in 10")
    assert not rounds.proven and rounds.verdict(True) is None


def test_a_row_in_a_slow_phase_is_measured_until_the_phase_ends():
    machine = Machine(lambda turns: 40.0 if turns <= 6 or turns > 11 else 20.0)
    machine.run(3)
    machine.order.append("between the rows")
    rounds = machine.run(3)
    assert rounds.mark == "" and set(rounds.ratios("a", "b")) == {2.0}
    assert len(rounds.tried) == 6 and rounds.level == 40.0


def test_a_row_stops_counting_when_the_run_sees_faster_memory_later():
    machine = Machine(lambda turns: 20.0 if turns <= 6 else 40.0)
    slow = machine.run(3)
    assert slow.mark == "" and slow.verdict(True) is True
    machine.order.append("between the rows")
    assert machine.run(3).mark == ""
    assert slow.verdict(True) is None and slow.mark == (
        "0 of 3 rounds count: the memory was slower than this machine's 40.0 GB/s in 3")
    assert [one["counts"] for one in slow.record()["rounds"]] == [False] * 3
    assert slow.record()["fastest_gbytes_per_s"] == 40.0


def test_one_fast_reading_before_the_slow_rounds_is_remembered():
    machine = Machine(lambda turns: 20.0 if turns else 40.0)
    rounds = machine.run(5)
    assert [one.steady for one in rounds.tried] == [False] + [True] * 9
    assert not rounds.counted and machine.guard.memory.fastest == 40.0


@pytest.mark.parametrize("recorded, counts", [(0, True), (33.0, True), (33.1, False)])
def test_the_level_that_an_earlier_run_recorded_counts_as_seen(recorded, counts):
    machine = Machine(lambda turns: 30.0)
    machine.guard = phase.Guard(lambda: 30.0, lambda: machine, recorded)
    rounds = machine.run(3)
    assert rounds.proven is counts and (rounds.mark == "") is counts


def test_readings_that_another_process_takes_are_remembered_with_the_others():
    machine = Machine(lambda turns: 20.0)
    usual = machine.guard.probe, machine.guard.watch
    readings = iter([40.0] * 3 + [20.0] * 100)
    with machine.guard.using(lambda: next(readings), lambda: machine):
        machine.run(3)
    assert (machine.guard.probe, machine.guard.watch) == usual
    assert "slower than this machine's 40.0 GB/s in 6" in machine.run(3).mark


def test_a_round_in_which_the_phase_changes_is_repeated():
    machine = Machine(lambda turns: 30.0 if turns == 3 else 40.0)
    rounds = machine.run(3)
    assert [one.steady for one in rounds.tried] == [True, False, True, True]
    assert rounds.mark == "" and rounds.ratios("a", "b") == [2.0] * 3


@pytest.mark.parametrize("at", range(1, 8))
@pytest.mark.parametrize("outlier", [10.0, 90.0])
def test_one_reading_that_lies_costs_no_round(at, outlier):
    readings = iter([outlier if i == at else 40.0 for i in range(1, 100)])
    machine = Machine(lambda turns: next(readings))
    rounds = machine.guard.in_turns(["b"], machine.side, 5)
    assert len(rounds.tried) == 5 and rounds.mark == ""
    assert all(read == 40.0 for one in rounds.tried for read in one.reads)


def test_a_slow_drift_counts_where_it_is_within_a_tenth_of_the_fastest():
    machine = Machine(lambda turns: 40.0 * 1.015 ** turns)
    rounds = machine.run(3)
    assert len(rounds.tried) == 3 and len(rounds.counted) == 3
    rounds = machine.run(6)
    levels = [one.level for one in rounds.counted]
    assert max(levels) <= 1.1 * min(levels) and len(rounds.counted) < len(rounds.tried)
    assert levels == [one.level for one in rounds.tried[-len(levels):]]  # the fastest are the last


def test_a_drift_within_a_round_is_seen_from_its_first_reading_to_its_last():
    machine = Machine(lambda turns: 40.0 * 1.06 ** turns)
    rounds = machine.run(1)
    assert not any(one.steady for one in rounds.tried)


def test_a_machine_without_any_phase_gives_bounded_rounds_that_prove_nothing():
    machine = Machine(lambda turns: 40.0 if turns % 2 else 20.0)
    rounds = machine.run(5)
    assert (len(rounds.tried), len(rounds.counted)) == (10, 0)
    assert rounds.mark == "0 of 5 rounds count: the memory changed in 10"
    assert not rounds.proven and rounds.verdict(True) is None and rounds.verdict(False) is None
    assert len(rounds.of("a")) == 10  # the figures of all rounds are shown
    assert len(Machine(machine.memory).run(5, most=6).tried) == 6


def test_three_rounds_of_five_make_a_verdict_and_two_do_not():
    for fast_rounds, holds in ((3, True), (2, None)):
        machine = Machine(lambda turns, end=2 * fast_rounds: 45.0 if turns <= end else 30.0)
        rounds = machine.run(5)
        assert len(rounds.counted) == fast_rounds
        assert rounds.verdict(True) is holds


@pytest.mark.parametrize("wanted, least, needed", [(1, 3, 3), (2, 3, 3), (3, 5, 5), (4, 5, 5)])
def test_fewer_rounds_than_a_verdict_needs_prove_nothing(wanted, least, needed):
    rounds = Machine(lambda turns: 45.0).run(wanted, least=least)
    assert len(rounds.tried) == wanted
    assert rounds.verdict(True) is None and rounds.verdict(False) is None
    assert rounds.mark == f"{wanted} of {needed} rounds count"
    rounds = Machine(lambda turns: 45.0).run(needed, least=least)
    assert rounds.mark == "" and rounds.verdict(False) is False


def test_rounds_in_which_others_had_the_cores_do_not_count():
    machine = Machine(lambda turns: 40.0, foreign=lambda turns: 0.4 if turns <= 4 else 0)
    rounds = machine.run(3)
    assert [one.busy for one in rounds.tried] == [True, True, False, False, False]
    machine = Machine(lambda turns: 40.0, foreign=lambda turns: 0.11)
    assert machine.run(3).mark == "0 of 3 rounds count: others had the cores in 6"


def test_a_side_that_knows_of_others_makes_its_round_busy():
    class Disturbed:
        foreign = 0.3
    assert phase.Round({"a": Disturbed(), "b": 1.0}, [40.0], 0.01).busy
    assert not phase.Round({"b": 1.0}, [40.0], 0.01).busy


def test_a_side_that_fails_is_kept_with_its_reason_and_the_others_go_on():
    machine = Machine(lambda turns: 40.0)
    machine.breaks = {"b": 3}
    rounds = machine.run(3)
    assert rounds.failures == {"b": "b broke"} and machine.order == ["a", "b", "b", "a", "a"]
    assert len(rounds.of("a")) == 3 and rounds.ratios("a", "b") == [2.0]
    machine.breaks = {"a": 0, "b": 0}
    rounds = machine.run(3)
    assert rounds.tried == [] and set(rounds.failures) == {"a", "b"} and rounds.sides() == []


def test_a_tenth_is_no_change_and_more_is():
    assert not phase.moved(40.0, 44.0) and not phase.moved(44.0, 40.0)
    assert phase.moved(40.0, 44.1) and phase.moved(44.1, 40.0)


def test_what_is_written_down_tells_every_round_and_which_count():
    machine = Machine(lambda turns: 30.0 if turns == 3 else 40.0)
    record = machine.run(2).record()
    assert [one["counts"] for one in record["rounds"]] == [True, False, True]
    assert record["rounds"][0] == {"counts": True, "read_gbytes_per_s": [40.0] * 3, "others": 0,
                                   "values": {"a": 40.0, "b": 20.0}}


def test_a_verdict_says_in_how_many_rounds_it_held():
    assert phase.held([.83, .78, .9, .81, .85], .8) == ("held in 4 of 5 rounds, median 0.83 "
                                                        "(0.78 to 0.90)")
    assert phase.held([2.0], 2.0) == "held in 1 of 1 round, median 2.00"
    assert phase.spread([3.0, 1.0, 2.0]).text() == "2 (1 to 3)"
    assert phase.spread([3.0, 3.1]).text() == "3"
