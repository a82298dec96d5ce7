"""The PostgreSQL primary dies under load and its synchronous standby is promoted. Brokers have both
hosts in their URL and go on: no acknowledged job is lost or ends twice, and the stream has no gaps.
"""
import contextlib
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e/client"), str(HERE.parent / "e2e/broker")]
from postgres import synchronous_standby  # noqa: E402
from postgres_checks import end_and_check  # noqa: E402
from postgres_fleet import PostgresFleet  # noqa: E402
from programs import wait_until  # noqa: E402

PRODUCERS = 3
JOBS = 200  # that each producer has acknowledged before, and after


class FailoverPair(PostgresFleet):
    """A primary and a standby; the first broker's start makes the tables on both."""

    def place(self):
        if len(self.servers) == 1:
            self.servers.insert(0, synchronous_standby(self.server))
        hosts = ",".join(str(x.folder) for x in reversed(self.servers))
        return (f"postgresql:///postgres?host={hosts}&user=millrace"
                "&target_session_attrs=read-write")

    def fail_over(self):
        self.server.kill()
        self.servers.reverse()
        self.server.run("SELECT pg_promote()")

    def acknowledged(self):
        """When each job was acknowledged, in order."""
        return sorted(t for x in self.producers for t in list(x.acknowledged.values()))

    def work(self, until):
        """Goes on until every producer has so many jobs acknowledged."""
        def done():
            self.go_on()
            return all(len(x.acknowledged) >= until for x in self.producers)
        wait_until(done, f"{until} jobs of each producer")


def test_a_promoted_standby_has_all_that_was_acknowledged(tmp_path, record_property):
    with contextlib.closing(FailoverPair(tmp_path, brokers=2, producers=PRODUCERS,
                                         pause_s=0, lease_ms=5000)) as fleet:
        fleet.work(until=JOBS)
        killed = time.monotonic()
        fleet.fail_over()
        fleet.work(until=JOBS + max(len(x.acknowledged) for x in fleet.producers))
        jobs = end_and_check(fleet)
        times = fleet.acknowledged()
    last = max(i for i, t in enumerate(times) if t <= killed)
    pause_s = max(b - a for a, b in zip(times[last:], times[last + 1:]))
    record_property("pause_s", round(pause_s, 3))
    assert pause_s < 10
    print(f"{jobs} jobs; the longest pause between two acknowledgments from the primary's death on "
          f"was {pause_s:.2f} s")
