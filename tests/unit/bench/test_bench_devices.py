"""Tests the comparison of several devices with each alone. Nothing here is timed."""
import importlib.machinery
import importlib.util
import json
import pathlib
import types

import pytest

PATH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "devices"


@pytest.fixture(scope="module")
def devices():
    loader = importlib.machinery.SourceFileLoader("devices", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("devices", loader))
    loader.exec_module(module)
    return module


def test_lengths_are_spread_around_the_mean(devices, tmp_path):
    lengths = [devices.length(number, 128) for number in range(4096)]
    assert (min(lengths), max(lengths)) == (64, 192)
    assert abs(sum(lengths) / len(lengths) - 128) < 1
    tokens = devices.write_jobs(tmp_path / "jobs", 10, 3, 128)
    jobs = [json.loads(line) for line in (tmp_path / "jobs").read_text().splitlines()]
    assert tokens == sum(job["max_tokens"] for job in jobs) and len(jobs[0]["tokens"]) == 3


def test_the_two_moments_are_those_when_so_many_lines_were_there(devices, tmp_path):
    output, written = tmp_path / "out", []

    def poll():  # between two looks another five lines come
        if len(written) == 20:
            return 0
        written.append(5)
        with open(output, "a", encoding="utf-8") as out:
            out.write("line\n" * 5)
        return None

    times = devices.watch(types.SimpleNamespace(poll=poll), output, 100)
    assert (times[devices.FIRST][1], times[devices.LAST][1]) == (20, 80)
    assert times[devices.FIRST][0] < times[devices.LAST][0]


def test_an_output_that_ends_early_has_no_second_moment(devices, tmp_path):
    output = tmp_path / "out"
    output.write_text("line\n" * 30)
    ended = iter([None, 1])
    times = devices.watch(types.SimpleNamespace(poll=lambda: next(ended)), output, 100)
    assert devices.FIRST in times and devices.LAST not in times
