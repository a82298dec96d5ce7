"""The guard of every row that reads memory: its ratios come from rounds in one phase of the memory.

Neighbours on a rented machine change the speed of its memory from minute to minute. A side that is
limited by memory changes with it, and a side that is limited by arithmetic does not, so that their
ratio says as much about the minute as about the sides. Therefore:

- In a round every side runs once. Every second round runs them in the opposite order.
- A probe reads memory before the first side and after each side.
- A round counts if its readings differ by at most MOVED, if other processes left the cores alone,
  and if its memory was at most MOVED slower than the fastest that was seen on this machine, in the
  whole run or in an earlier one. A run that sees a faster memory later discounts its own rows.
- Rounds that do not count are repeated until as many count as were wanted, or until twice as many
  have run. A row that still lacks rounds says so; with fewer than `least` it proves nothing.
"""
import contextlib
import dataclasses
import statistics

from .run import BIN, Failed, Refused, Watch, json_in, run
from .shapes import BUSY

MOVED = 0.1  # readings that differ by more are of different phases
LEAST = 3    # rounds that a verdict needs, unless the row needs more


def moved(one, other):
    return max(one, other) > (1 + MOVED) * min(one, other)


@dataclasses.dataclass(eq=False)
class Round:
    values: dict    # side -> what it measured
    reads: list     # the probe's readings in GB/s: before, between and after the sides
    foreign: float  # share of the cores that other processes took in the whole round

    @property
    def level(self):
        return statistics.median(self.reads)

    @property
    def steady(self):
        return not moved(min(self.reads), max(self.reads))

    @property
    def busy(self):
        """True if others used the cores in the whole round, or during a side that measured it."""
        each = (getattr(value, "foreign", 0) for value in self.values.values())
        return max(self.foreign, *each) > BUSY


@dataclasses.dataclass
class Memory:
    """The memory of one machine. All rows of a run share it."""
    fastest: float = 0.0  # GB/s; the fastest level seen

    def saw(self, level):
        self.fastest = max(self.fastest, level)

    def slower(self, level):
        return self.fastest > (1 + MOVED) * level


@dataclasses.dataclass
class Rounds:
    """The rounds of one row. Which of them count can change while the run goes on, because a faster
    phase may follow."""
    tried: list
    wanted: int
    failures: dict = dataclasses.field(default_factory=dict)  # side -> why it failed
    least: int = LEAST  # rounds that a verdict needs
    memory: Memory = dataclasses.field(default_factory=Memory)
    refused: set = dataclasses.field(default_factory=set)  # those of the failures that do not read
                                                           # the model's file

    @property
    def counted(self):
        """The undisturbed rounds in the machine's fastest phase."""
        return [one for one in self.tried
                if one.steady and not one.busy and not self.memory.slower(one.level)]

    @property
    def used(self):
        """The rounds that count, or all if none does; the mark then says so."""
        return self.counted or self.tried

    @property
    def proven(self):
        return len(self.counted) >= self.least

    def verdict(self, fits):
        """Whether the row holds; None if too few rounds count."""
        return bool(fits) if self.proven else None

    @property
    def level(self):
        return statistics.median(one.level for one in self.used)

    @property
    def mark(self):
        """Why fewer rounds count than were wanted or a verdict needs; "" if none is missing."""
        counted, needed = self.counted, max(self.wanted, self.least)
        if len(counted) >= needed:
            return ""
        left = [one for one in self.tried if one not in counted]
        causes = {"others had the cores": sum(one.busy for one in left),
                  "the memory changed": sum(not one.busy and not one.steady for one in left),
                  f"the memory was slower than this machine's {self.memory.fastest:.1f} GB/s":
                  sum(not one.busy and one.steady for one in left)}
        why = ", ".join(f"{what} in {count}" for what, count in causes.items() if count)
        return f"{len(counted)} of {needed} rounds count" + (f": {why}" if why else "")

    def sides(self):
        return list(dict.fromkeys(side for one in self.used for side in one.values))

    def of(self, side, figure=lambda value: value):
        """The side's figures, one for each round."""
        return [figure(one.values[side]) for one in self.used if side in one.values]

    def ratios(self, over, under, figure=lambda value: value):
        """figure(over) / figure(under) within each round that has both."""
        return [figure(one.values[over]) / figure(one.values[under]) for one in self.used
                if over in one.values and under in one.values]

    def record(self):
        """Every round that ran, and whether it counts, for the JSON file."""
        counted = self.counted
        return {"wanted": self.wanted, "least": self.least, "mark": self.mark,
                "fastest_gbytes_per_s": self.memory.fastest, "failures": self.failures,
                "rounds": [{"counts": one in counted, "read_gbytes_per_s": one.reads,
                            "others": one.foreign,
                            "values": {side: plain(value) for side, value in one.values.items()}}
                           for one in self.tried]}


def plain(value):
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value


class Probe:
    """Measures the memory's speed at this moment in GB/s. If a reading differs from the one before,
    reads twice more and returns the median: a new phase shows again, a short disturbance does
    not."""

    def __init__(self, measure, memory):
        self.measure, self.memory, self.last = measure, memory, None

    def __call__(self):
        reading = self.measure()
        if self.last is None or moved(reading, self.last):
            reading = statistics.median([reading, self.measure(), self.measure()])
            self.memory.saw(reading)
        self.last = reading
        return reading


def read_memory():
    """One reading, in a process of its own."""
    return json_in(run([BIN / "kernel_bench", "--reads"]).text)["read_gbytes_per_s"]


class Guard:
    """Runs sides in rounds. A run has one guard, which remembers the fastest memory that it saw.
    `measure` takes a reading; `watch` sees how others use the cores; `recorded` is the fastest
    level of earlier runs in GB/s."""

    def __init__(self, measure=read_memory, watch=Watch, recorded=0.0):
        self.memory = Memory(recorded)
        self.probe, self.watch = Probe(measure, self.memory), watch

    @contextlib.contextmanager
    def using(self, measure, watch):
        """Takes readings and watches the cores in another way meanwhile."""
        usual = self.probe, self.watch
        self.probe, self.watch = Probe(measure, self.memory), watch
        try:
            yield
        finally:
            self.probe, self.watch = usual

    def one_round(self, order, measure, before, found):
        """Runs one round. Records in `found` why a side failed, and goes on with the others."""
        values, reads, watch = {}, [before], self.watch()
        for side in order:
            try:
                values[side] = measure(side)
            except Failed as failure:
                found.failures[side] = str(failure)
                if isinstance(failure, Refused):
                    found.refused.add(side)
            reads.append(self.probe())
        return Round(values, reads, watch.foreign())

    def in_turns(self, sides, measure, wanted, most=None, least=LEAST):
        """Runs `measure(side)`, which may raise Failed, for every side in rounds."""
        found = Rounds([], wanted, least=least, memory=self.memory)
        before = self.probe()
        for number in range(most or 2 * wanted):
            left = [side for side in sides if side not in found.failures]
            if not left or len(found.counted) >= wanted:
                break
            order = left if number % 2 == 0 else left[::-1]
            one = self.one_round(order, measure, before, found)
            before = one.reads[-1]
            self.memory.saw(one.level)
            if one.values:
                found.tried.append(one)
        return found


@dataclasses.dataclass
class Spread:
    median: float
    low: float
    high: float

    def text(self, digits=0):
        """2.26 (2.2 to 2.31); the median alone if all are the same."""
        middle, low, high = (f"{x:.{digits}f}" for x in (self.median, self.low, self.high))
        return middle if low == high else f"{middle} ({low} to {high})"


def spread(values):
    return Spread(statistics.median(values), min(values), max(values))


def held(ratios, least):
    """Says in how many rounds a ratio held: "held in 4 of 5 rounds, median 0.83 (...)"."""
    rounds = f"{len(ratios)} round{'s' if len(ratios) > 1 else ''}"
    fits = sum(ratio >= least for ratio in ratios)
    return f"held in {fits} of {rounds}, median {spread(ratios).text(2)}"
