"""A server that is killed in the middle of a batch: each line runs once and has one result."""
import signal

import openai
import pytest
from batch_place import begin, chat_line, ended, lines_of
from http_keys import Keys
from http_place import Place, millrace, until


def client_at(place, token="none"):
    return openai.OpenAI(base_url=place.url + "/v1", api_key=token, max_retries=0)


def kill(place):
    place.broker.send_signal(signal.SIGKILL)
    place.broker.wait()


def counts(client, batch):
    return client.batches.retrieve(batch.id).request_counts


@pytest.mark.parametrize("kills", [1, 4])
def test_kill_and_go_on(make_place, kills):
    place = make_place()
    place.start_engine("--step-ms", "5", "--job-steps", "4", "--capacity", "16", "--rows", "16")
    total = 500
    with client_at(place) as client:
        batch = begin(client, [chat_line(i) for i in range(total)])
    for i in range(kills):
        with client_at(place) as client:
            until(lambda: counts(client, batch).completed > i * 80, "results")
        kill(place)
        place.start_broker()
    with client_at(place) as client:
        done = ended(client, batch)
        assert done.status == "completed" and done.request_counts.completed == total
        lines = lines_of(client, done.output_file_id)
        assert sorted(x["custom_id"] for x in lines) == sorted(f"line-{i}" for i in range(total))
        assert done.error_file_id is None
        listed = [x for x in client.batches.list()]
        assert [x.id for x in listed] == [batch.id]
    jobs = place.jobs_of_batch(batch.id)
    assert len(jobs) == len(set(jobs)) == total  # no line became two jobs


def test_a_kill_while_the_file_is_read_or_results_are_moved(make_place):
    """Kills at many moments of short batches, also those that come and go within one."""
    place = make_place()
    place.start_engine()
    for i in range(6):
        with client_at(place) as client:
            batch = begin(client, [chat_line(j) for j in range(300)])
            if i % 2:
                until(lambda: client.batches.retrieve(batch.id).status != "validating", "begin")
        kill(place)
        place.start_broker()
        with client_at(place) as client:
            done = ended(client, batch)
            assert done.status == "completed" and done.request_counts.completed == 300
            assert len(lines_of(client, done.output_file_id)) == 300
    work = list((place.folder / "ledger" / "http" / "results").iterdir())
    assert not work, work
    names = [x.name for x in (place.folder / "ledger" / "http" / "files").iterdir()]
    assert len(names) == 4 * 6, names  # input and output, each with data and record


def test_an_orderly_stop(make_place):
    place = make_place("--drain-wait-ms", "500")
    engine = place.start_engine("--step-ms", "20", "--job-steps", "10", "--capacity", "8", "--rows",
                                "8")
    with client_at(place) as client:
        batch = begin(client, [chat_line(i) for i in range(200)])
        until(lambda: counts(client, batch).completed, "results")
    place.broker.terminate()
    assert place.broker.wait(60) == 0
    engine.terminate()
    engine.wait()
    place.start_broker()
    place.start_engine()
    with client_at(place) as client:
        done = ended(client, batch)
        assert done.status == "completed" and done.request_counts.completed == 200
        assert len(lines_of(client, done.output_file_id)) == 200


def test_with_keys_it_goes_on_when_a_token_of_the_tenant_comes(tmp_path):
    keys = Keys(tmp_path)
    keys.new("engine", "*", "work")
    first, second = (keys.new(x, "acme", "submit,read") for x in ("one", "two"))
    other = keys.new("other", "other", "submit,read")
    place = Place(tmp_path, "--keys", keys.folder).start_broker()
    try:
        with client_at(place, first) as client:
            batch = begin(client, [chat_line(i, model="*") for i in range(50)])
            until(lambda: client.batches.retrieve(batch.id).status == "in_progress", "begin")
        kill(place)
        keys.run("revoke", "one", "--keys", keys.folder)
        place.start_broker()
        place.start_keyed_engine(tmp_path / "engine.key")
        with client_at(place, other) as client:
            assert not client.batches.list().data
        with client_at(place, second) as client:
            done = ended(client, batch)
            assert done.status == "completed" and len(lines_of(client, done.output_file_id)) == 50
    finally:
        place.close()


def lose_what_is_written(make_place):
    """A broker that was killed in mid-batch, and whose results so far are gone from the disk."""
    place = make_place()
    place.start_engine("--step-ms", "10", "--job-steps", "4", "--capacity", "2", "--rows", "2")
    with client_at(place) as client:
        batch = begin(client, [chat_line(i) for i in range(200)])
        until(lambda: counts(client, batch).completed, "results")
    kill(place)
    for name in ("checkpoint", "output", "errors"):
        path = place.folder / "ledger" / "http" / "results" / f"{batch.id}.{name}"
        path.unlink(missing_ok=True)
    return place, batch


def test_results_are_read_again_from_the_stream(make_place):
    place, batch = lose_what_is_written(make_place)
    place.start_broker()
    with client_at(place) as client:
        done = ended(client, batch)
        assert done.request_counts.completed == 200
        lines = lines_of(client, done.output_file_id)
        assert len({x["custom_id"] for x in lines}) == len(lines) == 200
    assert len(place.jobs_of_batch(batch.id)) == 200


def test_results_that_the_stream_no_longer_has(make_place):
    place, batch = lose_what_is_written(make_place)
    place.start_broker(http=False)
    with millrace.Client(f"ipc://{place.sockets}/clients") as client:
        lost = client.call("status_request", stream=batch.id)["high"]
        client.call("trim", stream=batch.id, first=lost + 1)
    place.broker.terminate()
    assert place.broker.wait(60) == 0
    place.start_broker()
    with client_at(place) as client:
        done = ended(client, batch)
        good, bad = lines_of(client, done.output_file_id), lines_of(client, done.error_file_id)
        assert {x["error"]["code"] for x in bad} == {"trimmed"} and len(bad) >= lost > 0
        ids = {x["custom_id"] for x in good + bad}
        assert done.request_counts.total == len(ids) == len(good) + len(bad) == 200
