"""The end of a run of brokers on PostgreSQL: all jobs end, and each of them once."""
import collections
import subprocess
import time

import zmq
from patience import PATIENCE_S
from programs import millrace, wait_until
from wire import as_client, read_all


def ask(fleet, statement):
    """The server's answer, as soon as it has recovered from whatever happened to it."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return fleet.server.run(statement)
        except subprocess.CalledProcessError as failure:
            assert time.monotonic() < until, failure.stderr
            fleet.go_on(more=False)  # at the end nothing new may begin
            time.sleep(0.05)


def end_and_check(fleet):
    """Returns how many jobs there were."""
    try:
        end(fleet)
        check_files(fleet.files)
        return check(fleet)
    except BaseException:
        print(fleet.tail_of_logs())
        raise


def end(fleet):
    for producer in fleet.producers:
        producer.finish()
    wait_until(lambda: not fleet.go_on(more=False)
               and not any(x.is_alive() for x in fleet.producers),
               "the end of all files and submits")
    for producer in fleet.producers:
        producer.stop()  # which raises what went wrong
    open_jobs = "SELECT count(*) FROM millrace.jobs WHERE state < 2"
    wait_until(lambda: fleet.go_on(more=False) or ask(fleet, open_jobs) == "0",
               "the end of all jobs")
    high = int(ask(fleet, "SELECT high FROM millrace.streams WHERE stream = 'results'"))
    wait_until(lambda: fleet.go_on(more=False) or len(fleet.consumer.jobs) >= high,
               "the last result")
    fleet.consumer.stop()


def check(fleet):
    """Checks what the consumer read on the way against the server's tables and a last reading."""
    with zmq.Context() as context:
        client = as_client(context, fleet.brokers[0])
        entries = read_all(client)
        client.socket.close()
    jobs = [x["body"]["job"] for x in entries]
    assert [x["number"] for x in entries] == list(range(1, len(entries) + 1))
    seen = fleet.consumer.jobs
    assert seen == jobs, (f"{len(seen)} results were read on the way and {len(jobs)} are there",
                          [x for x in zip(seen, jobs) if x[0] != x[1]][:5])
    doubled = [job for job, times in collections.Counter(jobs).items() if times > 1]
    acknowledged = {x for producer in fleet.producers for x in producer.acknowledged}
    lost = acknowledged - set(jobs)
    failed = [x["body"] for x in entries if x["body"].get("error")]
    assert (len(lost), len(doubled), len(failed)) == (0, 0, 0), (
        sorted(lost)[:5], doubled[:5], failed[:5])
    states = ask(fleet, "SELECT state, count(*) FROM millrace.jobs GROUP BY state")
    assert states == f"2|{len(jobs)}", states
    verified = millrace("verify", fleet.server.url)
    assert verified.returncode == 0, verified.stderr
    return len(jobs)


def check_files(files):
    """The command has written a line for each of its jobs."""
    expected = {f"{files.name}-{file}-{i}" for file in range(1, files.files + 1)
                for i in range(files.lines)}
    assert not files.wrong, files.wrong[:5]
    assert files.seen.keys() == expected and set(files.seen.values()) == {1}
