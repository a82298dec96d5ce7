"""`--ledger` as a URL: memory, and a folder."""
from wire import Peer, end, job, read_all


def join(context, broker, port, **hello):
    peer = Peer(context, broker.endpoint(port), **hello)
    peer.join()
    return peer


def test_a_ledger_in_memory_runs_jobs_and_says_that_it_keeps_nothing(broker_at, context, tmp_path):
    broker = broker_at("memory:")
    client = join(context, broker, "clients", role="client", name="c")
    engine = join(context, broker, "engines", role="engine", name="e", instance="e-1",
                  model="m")
    names = [f"j{i}" for i in range(200)]
    for first in range(0, 200, 10):
        _, body = client.ask("submit", jobs=[job(x) for x in names[first:first + 10]])
        assert not any(a.get("error") for a in body["answers"])
    done = 0
    engine.say("ready", credit=200)
    while done < 200:
        leases = engine.wait("leases")["leases"]
        _, committed = engine.ask("ends", ends=[end(x["lease"]) for x in leases])
        assert committed["committed"] == [x["lease"] for x in leases]
        done += len(leases)
    entries = read_all(client)
    assert [e["number"] for e in entries] == list(range(1, 201))
    assert sorted(e["body"]["job"] for e in entries) == sorted(names)
    assert not list(tmp_path.glob("**/*.sqlite"))
    assert "acknowledged jobs are lost" in (tmp_path / "broker.log").read_text()
    assert broker.terminate() == 0


def test_a_folder_and_its_url_are_one_ledger(broker_at, context, tmp_path):
    folder = tmp_path / "kept" / "here"
    broker = broker_at(f"sqlite://{folder}")
    join(context, broker, "clients", role="client", name="c").ask("submit", jobs=[job("a")])
    broker.kill()
    assert (folder / "ledger.sqlite").exists()
    broker = broker_at(str(folder))
    client = join(context, broker, "clients", role="client", name="c")
    assert client.ask("status_request", job="a")[1]["state"] == "queued"
