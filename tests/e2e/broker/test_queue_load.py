"""The loads of bench/queue_load on a real broker: what they say they did is what the broker did."""
import json
import subprocess

from patience import PATIENCE_S
from wire import PROGRAM


def load(kind, endpoint, *options, code=0):
    done = subprocess.run([PROGRAM.with_name("queue_load"), kind, endpoint, *map(str, options)],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else done.stderr


def test_jobs_go_through_all_loads(broker, client):
    clients, engines = broker.endpoint("clients"), broker.endpoint("engines")
    load("submit", clients, "--jobs", 250, "--clients", 3, "--per-message", 7, "--in-flight", 2)
    assert client.ask("status_request")[1]["counts"]["queued"] == 250
    load("hand-out", engines, "--jobs", 20)
    worked = load("work", engines, "--jobs", 230, "--capacity", 16, "--result-bytes", 500)
    assert worked["jobs"] == 230
    assert client.ask("status_request")[1]["counts"]["completed"] == 250
    followed = load("follow", clients, "--results", 250)
    read = load("replay", clients, "--cursor", "reader")
    assert followed["results"] == read["results"] == 250 and read["bytes"] > 230 * 500
    cursors = client.ask("cursors_request", stream="results")[1]["cursors"]
    assert [(x["cursor"], x["number"]) for x in cursors] == [("reader", 250)]


def test_jobs_that_are_known_are_no_measurement(broker):
    load("submit", broker.endpoint("clients"), "--jobs", 10)
    assert "use a new ledger" in load("submit", broker.endpoint("clients"), "--jobs", 10, code=1)
