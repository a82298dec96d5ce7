"""A broker whose ledger is in PostgreSQL: the broker and the server are killed, a standby takes
over, and nothing that was acknowledged is lost, and nothing ends twice."""
import signal
import time

import pytest
from patience import PATIENCE_S
from postgres import Pooler, PostgresServer, synchronous_standby
from wire import as_client, as_engine, end, job, read_all

JOBS = 240


@pytest.fixture
def broker(server, broker_at):
    return broker_at(server.url, "--lease-ms", "1000")


def work_until(engine, done, most):
    """Ends jobs until `done` holds so many."""
    while len(done) < most:
        engine.say("ready", credit=min(20, most - len(done)))
        ends = [end(x["lease"]) for x in engine.wait("leases")["leases"]]
        _, body = engine.ask("ends", ends=ends)
        done.update(body["committed"])


def submit(client, names):
    for first in range(0, len(names), 20):
        _, body = client.ask("submit", jobs=[job(x) for x in names[first:first + 20]])
        assert not any(a.get("error") for a in body["answers"]), body


def every_job_ended_once(client, names):
    entries = read_all(client)
    assert [e["number"] for e in entries] == list(range(1, len(names) + 1))
    assert sorted(e["body"]["job"] for e in entries) == sorted(names)


def test_acknowledged_jobs_outlive_the_broker_and_the_server(server, broker, context):
    names = [f"j{i}" for i in range(JOBS)]
    submit(as_client(context, broker), names)
    done = set()
    for turn, victims in enumerate(((broker,), (server,), (broker, server), (server, broker))):
        work_until(as_engine(context, broker, turn), done, (turn + 1) * JOBS // 6)
        for victim in victims:
            victim.kill()
        server.start() if server in victims else None
        broker.start() if broker in victims else None
    work_until(as_engine(context, broker, "last"), done, JOBS)
    client = as_client(context, broker)
    every_job_ended_once(client, names)
    # A second submission of a job that was acknowledged is known.
    _, body = client.ask("submit", jobs=[job(names[0])])
    assert body["answers"][0]["known"]
    assert broker.terminate() == 0


def test_producers_wait_for_a_server_that_is_away(server, broker, context):
    client = as_client(context, broker)
    submit(client, ["before"])
    server.kill()
    asked = client.say("submit", jobs=[job("meanwhile")])
    assert client.receive(0.5) is None
    server.start()
    answer = client.receive(PATIENCE_S)
    assert answer["id"] == asked and not answer["body"]["answers"][0].get("error")
    work_until(as_engine(context, broker, 1), set(), 2)
    every_job_ended_once(client, ["before", "meanwhile"])


def test_a_broker_ends_without_its_server_and_names_what_it_did_not_acknowledge(
        server, broker_at, context, tmp_path):
    broker = broker_at(server.url, "--drain-wait-ms", "500")
    client, engine = as_client(context, broker), as_engine(context, broker, 1)
    submit(client, ["before"])
    engine.say("ready", credit=1)
    lease = engine.wait("leases")["leases"][0]["lease"]
    server.kill()
    engine.say("ends", ends=[end(lease)])
    client.say("submit", jobs=[job("x"), job("y")])
    client.say("submit", jobs=[job("z")])
    assert client.receive(0.5) is None
    assert broker.terminate() == 1  # it is not drained
    assert "had to stop" in client.wait("goodbye")["reason"]
    log = (tmp_path / "broker.log").read_text()
    assert "the ledger did not answer until the end" in log
    assert "not acknowledged: 3 jobs in 2 submits of the client c of tenant default" in log
    assert "no commit came for 1 result" in log
    # Nothing is lost: each peer sends again what had no answer.
    server.start()
    broker.start()
    client = as_client(context, broker)
    submit(client, ["x", "y", "z"])
    engine = as_engine(context, broker, 1)
    assert engine.ask("ends", ends=[end(lease)])[1]["committed"] == [lease]
    work_until(engine, set(), 3)
    every_job_ended_once(client, ["before", "x", "y", "z"])
    assert broker.terminate() == 0


def test_a_second_signal_does_not_wait_for_a_server_that_is_away(
        server, broker_at, context, tmp_path):
    broker = broker_at(server.url, "--drain-wait-ms", "3600000")
    client = as_client(context, broker)
    server.kill()
    client.say("submit", jobs=[job("x")])
    assert client.receive(0.5) is None
    broker.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while "draining: " not in (tmp_path / "broker.log").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert broker.terminate() == 1


def test_a_broker_ends_beside_a_server_that_says_nothing(server, broker_at, context, tmp_path):
    broker = broker_at(server.url + "&connect_timeout=1", "--drain-wait-ms", "500")
    client = as_client(context, broker)
    submit(client, ["before"])
    with server.frozen():
        client.say("submit", jobs=[job("x")])
        assert client.receive(0.5) is None
        assert broker.terminate() == 1  # it is not drained
        assert "had to stop" in client.wait("goodbye")["reason"]
    log = (tmp_path / "broker.log").read_text()
    assert "the server has said nothing for 10000 ms" in log
    assert "not acknowledged: 1 job in 1 submit of the client c of tenant default" in log
    broker.start()
    client = as_client(context, broker)
    submit(client, ["x"])
    work_until(as_engine(context, broker, 1), set(), 2)
    every_job_ended_once(client, ["before", "x"])
    assert broker.terminate() == 0


def test_a_pooler_may_give_each_transaction_another_connection(server, broker_at, context):
    pooler = Pooler(server)
    try:
        broker = broker_at(pooler.url)
        names = [f"j{i}" for i in range(JOBS)]
        client, engine = as_client(context, broker), as_engine(context, broker, 1)
        submit(client, names)
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                   "pid <> pg_backend_pid() AND backend_type = 'client backend'")
        work_until(engine, set(), JOBS)
        every_job_ended_once(client, names)
        assert broker.terminate() == 0
    finally:
        pooler.close()


@pytest.fixture
def standby(server):
    standby = synchronous_standby(server)
    yield standby
    standby.close()


def test_a_standby_takes_over(server, standby, broker_at, context):
    url = (f"postgresql:///postgres?host={server.folder},{standby.folder}&user=millrace"
           "&target_session_attrs=read-write")
    broker = broker_at(url, "--lease-ms", "1000")
    names, done = [f"j{i}" for i in range(JOBS)], set()
    client = as_client(context, broker)
    submit(client, names[1:])
    work_until(as_engine(context, broker, 1), done, JOBS // 2)
    server.kill()
    asked = client.say("submit", jobs=[job(names[0])])
    standby.run("SELECT pg_promote()")
    answer = client.receive(PATIENCE_S)
    assert answer["id"] == asked and not answer["body"]["answers"][0].get("error")
    work_until(as_engine(context, broker, 2), done, JOBS)
    every_job_ended_once(client, names)


def test_a_standby_is_no_place_for_a_ledger(server, broker_at):
    broker_at(server.url).terminate()  # makes the tables
    standby = PostgresServer(primary=server)
    try:
        with pytest.raises(AssertionError, match="ledger_unavailable: .*read-only"):
            broker_at(standby.url)
    finally:
        standby.close()


def test_a_server_that_may_lose_commits_is_refused(broker_at):
    careless = PostgresServer("fsync=off")
    try:
        with pytest.raises(AssertionError, match="ledger_settings: .*fsync is 'off'"):
            broker_at(careless.url)
    finally:
        careless.close()
