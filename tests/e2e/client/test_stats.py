"""`millrace stats`: sums over the results of a stretch of time, and which results belong to it"""
import csv
import io
import json
import re
import time

import pytest
from programs import completion


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def submit(broker, count, *words, first=0, **fields):
    path = broker.folder / "jobs.jsonl"
    path.write_text("".join(completion(f"j{i}", f"p {i}", **fields) + "\n"
                            for i in range(first, first + count)))
    broker.millrace("submit", str(path), "--wait", "-o", str(broker.folder / f"r{first}"), *words,
                    expect=0)


def stats(broker, *words):
    done = broker.millrace("stats", *words, "--json", expect=0)
    return [json.loads(x) for x in done.stdout.splitlines()]


@pytest.fixture
def done(broker):
    """Three jobs of one batch, then a pause of over a second, then four of another."""
    broker.engine(STUB_DELAY_MS="50")
    submit(broker, 3, "--batch", "early", "--stream", "s1")
    time.sleep(1.5)
    middle = time.time()
    time.sleep(1.5)
    submit(broker, 4, "--batch", "late", "--stream", "s2", first=10)
    return broker, middle


def test_results_are_summed_up_by_what_is_asked_for(done):
    broker, _ = done
    (whole,) = stats(broker)
    results = [json.loads(x)["response"]["body"] for stream in ("s1", "s2")
               for x in broker.millrace("results", stream, expect=0).stdout.splitlines()]
    assert (whole["jobs"], whole["completed"], whole["failed"]) == (7, 7, 0)
    for ours, theirs in (("prompt_tokens", "prompt_tokens"),
                         ("completion_tokens", "completion_tokens")):
        assert whole[ours] == sum(x["usage"][theirs] for x in results)
    took = sorted((x["millrace"]["ended_us"] - x["millrace"]["submitted_us"]) / 1e3
                  for x in results)
    assert whole["whole_ms"]["most"] == pytest.approx(took[-1], rel=0.02)
    assert whole["whole_ms"]["p50"] == pytest.approx(took[3], rel=0.02)
    assert whole["jobs_per_second"] == pytest.approx(7 / 3600, rel=0.01)
    assert {x["stream"]: x["jobs"] for x in stats(broker, "--by", "stream")} == {"s1": 3, "s2": 4}
    assert {x["batch"]: x["jobs"] for x in stats(broker, "--by", "batch")} == {
        "early": 3, "late": 4}
    assert [x["model"] for x in stats(broker, "--by", "model")] == ["stub"]
    assert sum(x["jobs"] for x in stats(broker, "--by", "minute")) == 7
    assert stats(broker, "s1")[0]["jobs"] == 3
    assert stats(broker, "--batch", "late")[0]["jobs"] == 4


def test_rates_are_over_the_part_of_an_hour_that_belongs_to_the_stretch(done):
    broker, middle = done
    for unit, length_us in (("minute", 60_000_000), ("hour", 3_600_000_000)):
        since, until = int(middle) - 600, int(middle) + 1
        groups = stats(broker, "--since", stamp(since), "--until", stamp(until), "--by", unit)
        assert sum(x["jobs"] for x in groups) == 3
        for group in groups:
            begin, end = group["from_us"], group["to_us"]
            assert since * 1_000_000 <= begin < end <= until * 1_000_000
            assert begin // length_us == (end - 1) // length_us, "one hour or minute"
            assert begin == since * 1_000_000 or begin % length_us == 0
            assert end == until * 1_000_000 or end % length_us == 0
            assert group["jobs_per_second"] == pytest.approx(
                group["jobs"] / ((end - begin) / 1e6), rel=1e-6)


def test_only_results_of_the_stretch_count(done):
    broker, middle = done
    assert stats(broker, "--since", stamp(middle))[0]["jobs"] == 4
    assert stats(broker, "--until", stamp(middle))[0]["jobs"] == 3
    assert stats(broker, "--since", stamp(middle - 3600), "--until", stamp(middle - 1800)) == []
    none = broker.millrace("stats", "--until", stamp(middle - 1800), expect=0).stdout
    assert none.startswith("no job ended between ")
    empty = broker.millrace("stats", "--since", stamp(middle + 3600), expect=2).stderr
    assert "is empty" in empty and "--since" in empty


def test_the_first_result_of_a_long_stream_is_found_where_its_beginning_is_gone(broker):
    broker.engine()
    submit(broker, 60, "--stream", "long")
    broker.millrace("streams", "trim", "long", "--below", "40", expect=0)
    assert stats(broker, "long")[0]["jobs"] == 21


def test_the_formats(done):
    broker, _ = done
    text = broker.millrace("stats", expect=0).stdout
    assert re.search(r"^all: 7 jobs, \d", text) and "half in " in text
    rows = list(csv.DictReader(io.StringIO(
        broker.millrace("stats", "--by", "stream", "-o", "csv", expect=0).stdout)))
    assert [(x["group"], x["jobs"]) for x in rows] == [("s1", "3"), ("s2", "4")]
    assert all(int(x["whole_p50_ms"]) >= 50 for x in rows)
    table = broker.millrace("stats", "--by", "stream", "-o", "table", expect=0).stdout
    assert table.splitlines()[0].split()[:2] == ["group", "jobs"]


def test_failed_jobs_are_counted_apart(broker):
    broker.engine(STUB_FAIL_ON="bad")
    path = broker.folder / "jobs.jsonl"
    path.write_text(completion("a", "bad") + "\n" + completion("b", "fine") + "\n")
    broker.millrace("submit", str(path), "--wait", "-o", str(broker.folder / "r"), expect=1)
    (whole,) = stats(broker)
    assert (whole["jobs"], whole["failed"], whole["completed"]) == (2, 1, 1)
    assert "2 jobs, 1 failed, " in broker.millrace("stats", expect=0).stdout
