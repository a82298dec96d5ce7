"""What a load costs on one PostgreSQL: its rate, and the processor time of each part."""
import concurrent.futures
import dataclasses
import pathlib
import resource
import statistics
import time

from .run import TICKS_PER_S

LOADS = 4  # at once on brokers, whatever their number, so that only this number differs
PARTS = ("brokers", "PostgreSQL", "loads")


@dataclasses.dataclass
class Turn:
    per_second: float   # jobs of all loads
    part_s: dict        # part -> its processor seconds of a job

    @property
    def busy_cores(self):
        return self.per_second * sum(self.part_s.values())


def tree_seconds(pid, proc=pathlib.Path("/proc")):
    """The processor seconds of a process and of all that it started, running or ended. The time of
    one that ends meanwhile may be in neither place, so the larger of two readings counts."""
    def reading():
        parents, ticks = {}, {}
        for path in proc.glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            one = int(path.parent.name)
            parents[one], ticks[one] = int(fields[1]), sum(map(int, fields[11:15]))

        def of(one):
            return ticks[one] + sum(of(each) for each, parent in parents.items() if parent == one)
        return of(pid)
    return max(reading(), reading()) / TICKS_PER_S


def loads_seconds():
    """The processor seconds of this process's children that have ended: the loads."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Meter:
    """The processor time that PostgreSQL, the brokers on it and loads take from now on."""

    def __init__(self, server, brokers=()):
        self.server, self.brokers = server, brokers
        self.begin = self.used()

    def used(self):
        return (sum(tree_seconds(broker.process.pid) for broker in self.brokers),
                tree_seconds(self.server.process.pid), loads_seconds())

    def turn(self, jobs, per_second):
        """The Turn of so many jobs, all that were done since the beginning."""
        spent = [after - before for after, before in zip(self.used(), self.begin)]
        return Turn(per_second, {part: each / jobs for part, each in zip(PARTS, spent)})


def measured(kind, jobs, server, brokers):
    """A Turn of LOADS loads of this kind, spread over the brokers, with so many jobs together."""
    def one(number):
        options = ("--first", number) if kind == "submit" else ()
        return brokers[number % len(brokers)].load(kind, "--jobs", jobs // LOADS, *options)
    meter, begin = Meter(server, brokers), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(LOADS) as pool:
        done = sum(figures["jobs"] for figures in pool.map(one, range(LOADS)))
    return meter.turn(done, done / (time.monotonic() - begin))


def part_us(turns, part):
    return statistics.median(1e6 * turn.part_s[part] for turn in turns)


def costs_text(sides, cores, ratio, deciding):
    """The processor time of a job on each side, and what the cores would leave for one of ours at
    so many times the rate of the fastest of those that decide."""
    def side(name, turns):
        times = {part: part_us(turns, part) for part in PARTS}
        return f"{name} " + ", ".join(f"{part} {us:.0f} µs" for part, us in times.items() if us)
    fastest = max(statistics.median(turn.per_second for turn in sides[name]) for name in deciding)
    return (f"processor time of a job: {'; '.join(side(*each) for each in sides.items())}; "
            f"{ratio} times leave {1e6 * cores / ratio / fastest:.0f} µs of {cores} cores")


def side_text(turns, cores):
    """The medians of a side's rate, and of each part's processor time and share of the cores."""
    def part(name):
        share = statistics.median(turn.part_s[name] * turn.per_second / cores for turn in turns)
        return f"{name} {part_us(turns, name):.0f} µs ({share:.0%})"
    rate = statistics.median(turn.per_second for turn in turns)
    return f"{rate:,.0f} jobs/s, {', '.join(part(name) for name in PARTS)}"
