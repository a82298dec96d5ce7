"""submit and results go on where they were stopped, and say why where there is nothing to print:
after a trim, a full queue, a deadline, another ledger."""
import shutil
import signal
import subprocess

from patience import PATIENCE_S
from programs import completion, wait_until
from test_broker_commands import counts, lines, write_jobs


def trim_to_begin_at(broker, number):
    broker.millrace("streams", "trim", "results", "--below", str(number), expect=0)


def test_submit_goes_on_after_its_stream_was_trimmed(broker):
    broker.engine()
    broker.millrace("submit", write_jobs(broker, 24, "others.jsonl"), "--wait", expect=0)
    jobs, output = write_jobs(broker, 12), broker.folder / "results.jsonl"
    first = broker.millrace("submit", jobs, "--wait", "-o", str(output), expect=0)
    assert "12 completed" in first.stderr
    results = sorted(lines(output.read_text()), key=lambda x: x["id"])
    trim_to_begin_at(broker, 25)
    again = broker.millrace("submit", jobs, "--wait", expect=0)
    assert sorted(lines(again.stdout), key=lambda x: x["id"]) == results
    assert "trimmed" not in again.stderr


def test_results_that_are_gone_are_named_and_an_earlier_output_keeps_them(broker):
    broker.engine()
    jobs, output = write_jobs(broker, 12), broker.folder / "results.jsonl"
    broker.millrace("submit", jobs, "--wait", "-o", str(output), expect=0)
    written = lines(output.read_text())
    trim_to_begin_at(broker, 3)
    gone = sorted(int(x["custom_id"][1:]) for x in written[:2])
    ranges = f"{gone[0]}, {gone[1]}" if gone[1] > gone[0] + 1 else f"{gone[0]} to {gone[1]}"
    again = broker.millrace("submit", jobs, "--wait", expect=3)
    assert f"trimmed: stream results no longer holds the results of 2 of the lines of {jobs}: " \
        f"{ranges} (" in again.stderr
    assert "--from" not in again.stderr
    assert [x["id"] for x in lines(again.stdout)] == [x["id"] for x in written[2:]]

    kept = broker.millrace("submit", jobs, "--wait", "-o", str(output), expect=0)
    assert "12 completed, 0 failed" in kept.stderr
    assert sorted(x["id"] for x in lines(output.read_text())) == sorted(x["id"] for x in written)
    assert sorted(x.name for x in broker.folder.glob("results.jsonl*")) == ["results.jsonl"]


def test_failures_are_kept_where_other_results_are_gone(broker):
    broker.engine(STUB_FAIL_ON="fails")
    other, jobs = broker.folder / "other.jsonl", broker.folder / "jobs.jsonl"
    errors = broker.folder / "errors.jsonl"
    other.write_text(completion("other", "fails") + "\n")
    broker.millrace("submit", str(other), "--wait", "--errors", str(errors), expect=1)
    good = "".join(completion(f"j{i}", f"p {i}") + "\n" for i in range(3))
    for text in (good, good + completion("bad", "fails") + "\n"):  # so that it is the last entry
        jobs.write_text(text)
        waited = broker.millrace("submit", str(jobs), "--batch", "b", "--wait")
        assert waited.returncode in (0, 1), waited.stderr
    trim_to_begin_at(broker, 5)
    gone = broker.millrace("submit", str(jobs), "--batch", "b", "--wait", "--errors", str(errors),
                           expect=3)
    assert "trimmed: stream results no longer holds the results of 3 of" in gone.stderr
    assert [x["custom_id"] for x in lines(errors.read_text())] == ["bad"]


def test_an_interrupted_submit_leaves_the_earlier_output_alone(broker):
    engine = broker.engine()
    jobs, output = write_jobs(broker, 5), broker.folder / "results.jsonl"
    broker.millrace("submit", jobs, "--wait", "-o", str(output), expect=0)
    before = output.read_text()
    engine.kill()
    engine.wait()
    write_jobs(broker, 7)
    process = subprocess.Popen(broker.command("submit", jobs, "--wait", "-o", str(output)),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: counts(broker)["queued"] == 7, "the jobs to be submitted")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    assert output.read_text() == before
    broker.engine()
    told = broker.millrace("submit", jobs, "--wait", "-o", str(output), expect=0).stderr
    assert f"the new ones come to {output}.new\n" in told
    assert len(lines(output.read_text())) == 7


def test_submit_to_a_short_queue_gives_up_with_a_tally_and_the_same_command_goes_on(broker):
    broker.stop()
    broker.start("--tenant", "*:queued=5")
    jobs = write_jobs(broker, 60)
    done = broker.millrace("submit", jobs, "--timeout", "1", expect=3)
    assert "overloaded: the broker had no room for 1 s (--timeout)" in done.stderr
    assert "; 5 of 60 jobs submitted (" in done.stderr
    broker.engine()
    done = broker.millrace("submit", jobs, "--wait", expect=0)
    assert len(lines(done.stdout)) == 60


def read_until(process, count):
    for _ in range(count):
        process.stdout.readline()


def test_stopped_results_tell_how_to_read_on_with_all_that_was_typed(broker):
    broker.engine()
    broker.millrace("submit", write_jobs(broker, 5), "--batch", "it's", "--wait", expect=0)
    typed = ["results", "--from=3", "results", "--follow", "--batch", "it's"]
    for words, told in (
            (typed,
             f"results results --follow --batch 'it'\\''s' --broker {broker.clients} --from 6"),
            (["results", "--from", "3", "--follow"],
             f"results --follow --broker {broker.clients} --from 6"),
            (["results", "--follow", "--from", "3", "--cursor", "c"],
             f"results --follow --cursor c --broker {broker.clients}")):
        process = subprocess.Popen(broker.command(*words), text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        read_until(process, 3)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
        assert stderr.splitlines()[-1] == f"Read on with: millrace {told}"


def test_results_of_another_ledger_have_no_place_to_read_on_from(broker):
    broker.engine()
    broker.millrace("submit", write_jobs(broker, 3), "--wait", expect=0)
    process = subprocess.Popen(broker.command("results", "--follow"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    read_until(process, 3)
    broker.kill()
    shutil.rmtree(broker.folder / "ledger")
    broker.start()
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3 and "epoch_changed" in stderr and "number 1" in stderr
    assert "Read on" not in stderr


def test_results_that_print_nothing_say_why(broker):
    broker.engine()
    done = broker.millrace("submit", write_jobs(broker, 1), "--batch", "a", "--wait", expect=0)
    assert "1 job submitted; batch a\n" in done.stderr
    broker.millrace("submit", write_jobs(broker, 2), "--batch", "b", "--stream", "s", "--wait",
                    expect=0)
    for words, why in ((("--from", "100"), " from number 100 on"),
                       (("--batch", "b"), " of batch b"),
                       (("--cursor", "c"), " after cursor c")):
        if "--cursor" in words:
            broker.millrace("results", *words, expect=0)
        done = broker.millrace("results", *words, expect=0)
        assert done.stdout == ""
        assert done.stderr == (
            f"millrace: stream results holds no result{why}; it ends with number 1\n")


def test_a_deadline_in_the_past_is_told_as_it_was_typed_and_expired_jobs_are_counted(broker):
    jobs = write_jobs(broker, 2)
    past = "2020-01-31T22:00:00Z"
    done = broker.millrace("submit", jobs, "--deadline", past, expect=1)
    assert done.stderr.count(f": --deadline {past} is in the past (") == 2
    assert "deadline_us" not in done.stderr
    done = broker.millrace("submit", jobs, "--deadline", "+1s", "--wait", expect=1)
    assert "0 completed, 2 failed, of which 2 expired\n" in done.stderr
