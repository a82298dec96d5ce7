"""Our speed on two cores beside one process that is always busy, compared with our speed alone.

The engine's work-items wait for each other at barriers. A core that another process holds makes all
of them wait, so the engine could lose more than the core's share.
"""
import contextlib
import dataclasses
import os
import statistics
import subprocess

from .phase import held, spread
from .run import Failed, Watch
from .shapes import BESIDE, IDLE, IDLE_EIGHT, IDLE_FULL, IDLE_ONE, OURS

LEAST = 0.5  # share of the idle speed
CORES = 2
# (what, shape, field of Speed)
ROWS = (("generated, 64 rows, context 256", IDLE_FULL, "generate"),
        ("generated, 8 rows", IDLE_EIGHT, "generate"),
        ("generated, 1 row", IDLE_ONE, "generate"),
        ("prompt, 8 rows of 128", IDLE_EIGHT, "prompt"))


@contextlib.contextmanager
def on_two_cores():
    """Runs the programs that are started meanwhile on two cores."""
    usual = os.sched_getaffinity(0)
    if len(usual) < CORES:
        raise Failed(f"{CORES} cores are needed, and this process may use {len(usual)}")
    os.sched_setaffinity(0, sorted(usual)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


@contextlib.contextmanager
def busy_process():
    """A process that never waits, which ends on leaving. Gives its id."""
    process = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def measure(side, shape, ours):
    """The Speed of that side. The busy process is ours, so it is no stranger that disturbs."""
    if side == IDLE:
        return ours.measure(shape)
    with busy_process() as loop:
        watch = Watch(loop)
        speed = ours.measure(shape)
        return dataclasses.replace(speed, foreign=watch.foreign())


def row_of(what, speed, rounds):
    def figure(value):
        return getattr(value, speed)
    row = {"what": f"{what}, tok/s beside a busy process", "ours": "failed",
           "required": f"ratio >= {LEAST}", "mark": rounds.mark, "holds": None}
    if rounds.failures:
        return {**row, "failure": str(rounds.failures)}
    ratios = rounds.ratios(BESIDE, IDLE, figure)
    return {**row, "ours": spread(rounds.of(BESIDE, figure)).text(),
            "peer": spread(rounds.of(IDLE, figure)).text(), "peer_name": "ours, alone",
            "ratio": held(ratios, LEAST), "runs": rounds.record(),
            "headline": f"{what}, beside a busy process: {statistics.median(ratios):.2f} times the "
                        "idle speed",
            "holds": rounds.verdict(statistics.median(ratios) >= LEAST)}


def busy(context):
    """Makes the rows for bench/compare."""
    ours = context.speeds.side(OURS)
    found = {}
    with on_two_cores():
        for _, shape, _ in ROWS:
            if shape not in found:
                found[shape] = context.guard.in_turns(
                    shape.sides, lambda side, shape=shape: measure(side, shape, ours),
                    context.rounds(shape.rounds))
    return lambda: [row_of(what, speed, found[shape]) for what, shape, speed in ROWS]
