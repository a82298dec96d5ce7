"""`millrace top` where the broker has more batches than it asks for."""
import json
import subprocess

from patience import PATIENCE_S
from wire import PROGRAM, job

SEEN = 5_000  # 20 answers of 250 batches


def top(broker, *words):
    done = subprocess.run([PROGRAM.with_name("millrace"), "top", "--once", *words, "--broker",
                           broker.endpoint("clients")], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=True)
    return done.stdout


def submit(client, numbers):
    jobs = [job(f"j{i}", batch=f"b{i:05}") for i in numbers]
    for at in range(0, len(jobs), 500):
        kind, body = client.ask("submit", jobs=jobs[at:at + 500])
        assert kind == "submitted", body


def test_top_says_that_there_are_more_batches_than_it_looked_at(broker, client):
    submit(client, range(SEEN))
    assert "more" not in top(broker)
    submit(client, [SEEN])
    assert top(broker).splitlines()[-1] == (
        "and perhaps more: the broker has over 5,000 unfinished batches")
    view = json.loads(top(broker, "--json"))
    assert view["more_batches"] is True and len(view["batches"]) == SEEN
