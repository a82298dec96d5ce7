"""streams and cursors with a running broker and a stub engine."""
import json

from programs import wait_until
from test_broker_commands import lines, write_jobs


def show(broker, stream="results"):
    return lines(broker.millrace("streams", "show", stream, "--json", expect=0).stdout)


def test_streams_and_cursors_are_listed_trimmed_and_removed(broker):
    broker.engine()
    assert broker.millrace("streams", "ls", expect=0).stdout == "no stream\n"
    broker.millrace("submit", write_jobs(broker, 12), "--batch", "open", "--wait", expect=0)
    broker.millrace("results", "results", "--cursor", "loader", expect=0)
    listed = lines(broker.millrace("streams", "ls", "--json", expect=0).stdout)
    assert [(x["stream"], x["first"], x["high"], x["cursors"]) for x in listed] == [
        ("results", 1, 12, 1)]
    assert "12 results, numbers 1 to 12" in broker.millrace("streams", "ls", expect=0).stdout
    cursor = lines(broker.millrace("cursors", "ls", "--json", expect=0).stdout)
    assert [(x["cursor"], x["number"], x["behind"]) for x in cursor] == [("loader", 12, 0)]

    broker.millrace("streams", "trim", "results", "--below", "9", expect=0)
    read = broker.millrace("results", "results", expect=0)
    assert len(lines(read.stdout)) == 4 and "trimmed" in read.stderr
    wait_until(lambda: show(broker)[0]["bytes"] < listed[0]["bytes"] / 2, "the space of results")
    past = broker.millrace("streams", "trim", "results", "--below", "99", expect=3)
    assert "99" in past.stderr and "12" in past.stderr

    broker.millrace("cursors", "rm", "results", "loader", expect=0)
    assert "not_found" in broker.millrace("cursors", "rm", "results", "loader", expect=3).stderr
    assert broker.millrace("cursors", "ls", expect=0).stdout == "no cursor\n"
    removed = broker.millrace("streams", "rm", "results", expect=0)
    assert removed.stdout == "removed stream results; its next result is number 13\n"
    assert broker.millrace("streams", "ls", expect=0).stdout == "no stream\n"
    assert "not_found" in broker.millrace("streams", "show", "none", expect=3).stderr


def test_a_stream_keeps_the_limits_that_were_set(broker):
    broker.millrace("streams", "keep", "night", "--age", "12h", expect=0)
    broker.millrace("streams", "keep", "night", "--bytes", "2G", expect=0)
    assert show(broker, "night")[0]["set"] == {"age_s": 12 * 3600, "bytes": 2 << 30}
    text = broker.millrace("streams", "show", "night", expect=0).stdout
    assert "results for 12 hours\n" in text and "2 GiB\n" in text
    assert "cursors for 30 days (the broker's limit)" in text
    broker.millrace("streams", "keep", "night", "--reset", "--cursor-age", "0", expect=0)
    assert show(broker, "night")[0]["set"] == {"cursor_age_s": 0}
    for wrong in (["--age", "2 weeks"], ["--age", "200000d"], ["--bytes", "much"], ["--age", "-1"]):
        told = broker.millrace("streams", "keep", "night", *wrong, expect=2)
        assert wrong[0] in told.stderr


def test_results_jobs_and_batches_go_by_the_brokers_limits(broker):
    broker.stop()
    broker.start("--keep-results", "2s", "--keep-jobs", "2s")
    broker.engine()
    jobs = write_jobs(broker, 5)
    done = broker.millrace("submit", jobs, "--wait", "--json", expect=0)
    assert done.returncode == 0
    wait_until(lambda: broker.millrace("streams", "ls", expect=0).stdout == "no stream\n",
               "the end of old results")
    wait_until(lambda: json.loads(broker.millrace("status", "--json").stdout)["counts"]
               ["completed"] == 0, "the end of old jobs")
