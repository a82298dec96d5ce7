"""examples/synthesize.py: kills of the program, the broker and the engine cost nothing."""
import json
import re

import millrace
import pytest
from client_place import until

COUNT = 28


@pytest.fixture
def run(own_fleet, tmp_path):
    """Runs it to its end, and gives what it printed."""
    return lambda count: own_fleet.told("synthesize.py", tmp_path / "set.jsonl", "--count", count)


def records_of(fleet):
    """What must be in the file, from the results in the order in which they stand in the stream."""
    import synthesize
    new, found = synthesize.New(), []
    with millrace.Client(fleet.clients) as client:
        results = list(client.results("synthesize-set.jsonl", follow=False))
    for result in results:
        record = synthesize.record_of(result)
        if record and new.take(record["question"]):
            found.append(record)
    return [result.job for result in results], found


def test_nothing_is_lost_or_doubled_by_kills(own_fleet, examples, run, tmp_path):
    for results, victim in ((4, None), (9, "broker"), (16, "engine")):
        program = own_fleet.example("synthesize.py", tmp_path / "set.jsonl", "--count", COUNT)
        until(lambda: own_fleet.high("synthesize-set.jsonl") >= results, f"{results} results")
        if victim == "broker":
            own_fleet.kill_broker()
            own_fleet.start_broker()
        elif victim == "engine":
            own_fleet.processes[1].kill()
            own_fleet.start_engine()
        program.kill()
        program.wait()
        with open(tmp_path / "set.jsonl", "ab") as file:
            file.write(b'{"seed": 1, "subj')
    told = run(COUNT)
    jobs, records = records_of(own_fleet)
    assert sorted(jobs) == [f"synthesize-set.jsonl/{seed:08}" for seed in range(COUNT)]
    lines = (tmp_path / "set.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    assert told.startswith(f"{len(records)} records from {COUNT} texts")


def test_it_adds_records_and_computes_the_beginning_once(own_fleet, examples, run, tmp_path):
    import synthesize
    told = run(16)
    assert int(re.search(r"(\d+)% of the tokens", told)[1]) > 75, told
    first = (tmp_path / "set.jsonl").read_text()
    records = [json.loads(line) for line in first.splitlines()]
    assert len(records) > 6
    for record in records:
        assert record["question"].endswith("?") and record["answer"][-1] in ".!"
        assert record["subject"] in synthesize.SUBJECTS
    assert run(16).startswith(f"{len(records)} records from 16 texts")
    assert (tmp_path / "set.jsonl").read_text() == first
    assert run(3).startswith(f"{len(records)} records from 16 texts")  # nothing is taken back
    run(24)
    more = (tmp_path / "set.jsonl").read_text()
    assert more.startswith(first)
    seeds = [json.loads(line)["seed"] for line in more.splitlines()]
    assert len(set(seeds)) == len(seeds) and set(seeds[len(records):]) <= set(range(16, 24))

    # A text that repeats a record of an earlier run, because it is the same job under another id.
    again = {**synthesize.job("synthesize-set.jsonl", seeds[0]), "id": "repeat/00000024"}
    with millrace.Client(own_fleet.clients) as client:
        repeated = client.wait(client.submit(again, stream="synthesize-set.jsonl",
                                             **synthesize.SETTINGS))
    assert synthesize.record_of(repeated)["question"] == records[0]["question"]
    assert run(25).startswith(f"{len(seeds)} records from 25 texts")


def test_repeats_are_told_by_their_words(examples):
    import synthesize
    new = synthesize.New()
    assert new.take("How many legs does a spider have?")
    assert not new.take("how many legs does a  Spider have")
    assert not new.take("How many legs does a butterfly have?")
    assert new.take("Which metal is the heaviest of all?")
    assert new.take("Why?") and not new.take("why")
