"""What a load costs brokers on one PostgreSQL: its rate, and the processor time of each part.

Four loads run at once, whatever the number of brokers, so that only this number differs.
"""
import concurrent.futures
import dataclasses
import pathlib
import resource
import statistics
import time

from .run import TICKS_PER_S

LOADS = 4
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


def measured(kind, jobs, server, brokers):
    """A Turn of LOADS loads of this kind, spread over the brokers, with so many jobs together."""
    def used():
        return (sum(tree_seconds(broker.process.pid) for broker in brokers),
                tree_seconds(server.process.pid), loads_seconds())

    def one(number):
        options = ("--first", number) if kind == "submit" else ()
        return brokers[number % len(brokers)].load(kind, "--jobs", jobs // LOADS, *options)
    before, begin = used(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(LOADS) as pool:
        done = sum(figures["jobs"] for figures in pool.map(one, range(LOADS)))
    seconds = time.monotonic() - begin
    spent = [after - earlier for after, earlier in zip(used(), before)]
    return Turn(done / seconds, {part: each / done for part, each in zip(PARTS, spent)})


def side_text(turns, cores):
    """The medians of a side's rate, and of each part's processor time and share of the cores."""
    def part(name):
        time_us = statistics.median(1e6 * turn.part_s[name] for turn in turns)
        share = statistics.median(turn.part_s[name] * turn.per_second / cores for turn in turns)
        return f"{name} {time_us:.0f} µs ({share:.0%})"
    rate = statistics.median(turn.per_second for turn in turns)
    return f"{rate:,.0f} jobs/s, {', '.join(part(name) for name in PARTS)}"
