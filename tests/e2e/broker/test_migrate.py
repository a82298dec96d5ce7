"""`millrace migrate`: a whole ledger goes from a folder to PostgreSQL and back, with real brokers
on both sides; a copy that is killed; what is refused."""
import json
import subprocess
import time

import pytest

from keyed import MILLRACE
from patience import PATIENCE_S
from wire import as_client, as_engine, end, job, read_all

JOBS = 90


def millrace(*words, code=0):
    done = subprocess.run([MILLRACE, *map(str, words)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def take(engine, count):
    engine.say("ready", credit=count)
    leases = []
    while len(leases) < count:
        leases += engine.wait("leases")["leases"]
    return [x["lease"] for x in leases]


def finish(engine, leases):
    _, body = engine.ask("ends", ends=[end(x) for x in leases])
    assert sorted(body["committed"]) == sorted(leases), body


def counts(client):
    return client.ask("status_request")[1]["counts"]


def move(broker, place, to):
    """Stops the broker, migrates its ledger, and starts the broker on the copy."""
    assert broker.terminate() == 0
    told = millrace("migrate", place, to)
    assert "the copy is equal to its source" in told and "entries" in told, told
    broker.place = str(to)
    broker.start()


def test_a_ledger_goes_to_postgresql_and_back_and_its_jobs_end_once(server, broker_at, tmp_path,
                                                                    context):
    first, last = tmp_path / "first", tmp_path / "last"
    broker = broker_at(str(first), "--lease-ms", "20000")
    client = as_client(context, broker)
    names = [f"j{i}" for i in range(JOBS)]
    for start in range(0, JOBS, 30):
        client.ask("submit", jobs=[job(x, batch="lot") for x in names[start:start + 30]])
    client.ask("change_batch", batch="lot", close=True, metadata={"who": "me"})
    engine = as_engine(context, broker, "lives")
    finish(engine, take(engine, 20))
    client.ask("acknowledge", stream="results", cursor="reader", number=12)
    read = read_all(client)
    kept = take(engine, 5)
    lost = take(as_engine(context, broker, "dies"), 5)
    epoch = client.ask("fetch")[1]["epoch"]

    move(broker, first, server.url)
    client = as_client(context, broker)
    assert client.ask("fetch")[1]["epoch"] == epoch
    assert read_all(client) == read
    engine = as_engine(context, broker, "lives")
    finish(engine, kept)  # of leases that the other store gave out
    _, body = client.ask("submit", jobs=[job(names[0], batch="lot")])
    assert body["answers"][0]["known"]
    cursors = client.ask("cursors_request", stream="results")[1]["cursors"]
    assert [(x["cursor"], x["number"]) for x in cursors] == [("reader", 12)]
    more = take(engine, 20)
    assert min(more) > max(lost)
    finish(engine, more)

    broker.options = ["--lease-ms", "1000"]
    move(broker, server.url, last)
    client, engine = as_client(context, broker), as_engine(context, broker, "lives")
    until = time.monotonic() + PATIENCE_S
    while counts(client)["completed"] < JOBS:
        assert time.monotonic() < until, counts(client)
        engine.say("ready", credit=20)
        message = engine.receive(0.1)  # else the broker takes the engine for silent
        if message and message["kind"] == "leases":
            finish(engine, [x["lease"] for x in message["body"]["leases"]])
    entries = read_all(client)
    assert entries[:20] == read
    assert [x["number"] for x in entries] == list(range(1, JOBS + 1))
    assert sorted(x["job"] for x in entries) == sorted(names)
    assert len(read_all(client, "batches")) == 1
    assert broker.terminate() == 0
    assert f"{JOBS} jobs" in millrace("verify", last)


def test_what_it_prints_for_programs(server, broker_at, tmp_path, context):
    broker = broker_at(str(tmp_path / "a"))
    client = as_client(context, broker)
    client.ask("submit", jobs=[job("one"), job("two")])
    assert broker.terminate() == 0
    lines = millrace("migrate", tmp_path / "a", server.url, "--json").splitlines()
    events = [json.loads(x) for x in lines]
    jobs = events[0]
    assert jobs["event"] == "table" and jobs["table"] == "jobs" and jobs["rows"] == 2
    assert len(jobs["checksum"]) == 16 and jobs["bytes"] > 0
    assert events[-1]["event"] == "migrated" and events[-1]["from"] == str(tmp_path / "a")
    assert "2 jobs" in millrace("verify", server.url)


def test_a_queue_in_postgresql_is_sound_when_all_its_jobs_have_ended(server, broker_at, context):
    broker = broker_at(server.url)
    client, engine = as_client(context, broker), as_engine(context, broker, 1)
    client.ask("submit", jobs=[job(f"j{i}", batch="few") for i in range(3)])
    finish(engine, take(engine, 3))
    assert "3 jobs" in millrace("verify", server.url)


def test_verify_finds_damage_in_postgresql(server, broker_at, context):
    broker = broker_at(server.url)
    client, engine = as_client(context, broker), as_engine(context, broker, 1)
    client.ask("submit", jobs=[job(f"j{i}", batch="few") for i in range(9)])
    finish(engine, take(engine, 4))
    # A broker may serve it meanwhile.
    assert "9 jobs" in millrace("verify", server.url)
    assert broker.terminate() == 0
    one_bit = ("UPDATE millrace.entries SET body = set_byte(body, 0, get_byte(body, 0) # 1) "
               "WHERE number = 3 AND stream = 'results'")
    server.run(one_bit)
    told = millrace("verify", server.url, code=3)
    assert "the table entries is damaged: tenant default, stream results, number 3" in told, told
    server.run(one_bit)
    for change, says in (
            ("DELETE FROM millrace.queue", "a job whose time has come is not in the queue: job j"),
            ("UPDATE millrace.job_counts SET jobs = 9 WHERE batch <> ''",
             "the counts of jobs do not match the jobs: batch few of tenant default"),
            ("ALTER SEQUENCE millrace.job_sequence RESTART",
             "a counter lies behind what it has numbered: job_sequence")):
        server.run(change)
        told = millrace("verify", server.url, code=3)
        assert "ledger_corrupt" in told and says in told, told


SLOW = """
CREATE FUNCTION millrace.wait() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN PERFORM pg_sleep(3600); RETURN NULL; END';
CREATE TRIGGER wait BEFORE INSERT ON millrace.entries EXECUTE FUNCTION millrace.wait()
"""
WAITS = ("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND "
         "query LIKE 'COPY%'")
END = ("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")


def test_a_copy_that_is_killed_is_served_by_nobody_and_begins_anew(server, broker_at, tmp_path,
                                                                   context):
    broker = broker_at(str(tmp_path / "a"))
    client, engine = as_client(context, broker), as_engine(context, broker, 1)
    client.ask("submit", jobs=[job(f"j{i}") for i in range(40)])
    finish(engine, take(engine, 10))
    assert broker.terminate() == 0
    assert broker_at(server.url).terminate() == 0  # makes the tables
    server.run("DELETE FROM millrace.handles; DELETE FROM millrace.streams; "
               "DELETE FROM millrace.entries")
    server.run(SLOW)
    copy = subprocess.Popen([MILLRACE, "migrate", tmp_path / "a", server.url])
    until = time.monotonic() + PATIENCE_S
    while server.run(WAITS) != "1":
        assert copy.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    copy.kill()
    copy.wait(PATIENCE_S)
    server.run(END)
    server.run("DROP FUNCTION millrace.wait CASCADE")

    with pytest.raises(AssertionError, match="(?s)not completed.*millrace migrate"):
        broker_at(server.url)
    assert "not completed" in millrace("migrate", server.url, tmp_path / "c", code=3)
    assert "not completed" in millrace("verify", server.url, code=3)
    millrace("migrate", tmp_path / "a", server.url)
    client = as_client(context, broker_at(server.url))
    assert counts(client)["completed"] == 10 and counts(client)["queued"] == 30


def test_what_is_refused(server, broker_at, tmp_path, context):
    broker = broker_at(str(tmp_path / "a"))
    client = as_client(context, broker)
    client.ask("submit", jobs=[job("one")])
    told = millrace("migrate", tmp_path / "a", server.url, code=3)
    assert "ledger_in_use" in told
    assert broker.terminate() == 0
    millrace("migrate", tmp_path / "a", server.url)
    told = millrace("migrate", tmp_path / "a", server.url, code=3)
    assert "conflict" in told and "must be empty" in told and "name another database" in told
    assert "must be empty" in millrace("migrate", server.url, tmp_path / "a", code=3)
    assert "is absent" in millrace("migrate", tmp_path / "nowhere", tmp_path / "b", code=3)
    assert "in memory" in millrace("migrate", "memory:", tmp_path / "b", code=2)
    assert "both places" in millrace("migrate", tmp_path / "a", f"{tmp_path}/a/.", code=2)
    assert not (tmp_path / "b").exists()

    serving = broker_at(server.url)
    told = millrace("migrate", server.url, tmp_path / "b", code=3)
    assert "ledger_in_use" in told and "millrace drain" in told
    assert serving.process.poll() is None
    assert as_client(context, serving).ask("submit", jobs=[job("two")])[0] == "submitted"
