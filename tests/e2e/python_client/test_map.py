"""map: in order and as finished, over restarts of the program, with a window and progress."""
import asyncio
import subprocess
import time

import millrace
import pytest
from client_place import until
from millrace import _reader, errors

# Prints the results of a named map; is killed after some of them.
MAPPER = """
import os, signal, sys
import millrace
stop = int(sys.argv[1])
with millrace.Client() as client:
    for result in client.map((f"p{i}" for i in range(1000)), name="mine", window=100):
        print(result.index, result.job, flush=True)
        if result.index == stop:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def slow(bare_place):
    """A client of a broker whose engine runs two jobs at a time, so that jobs end one by one."""
    bare_place.start_broker()
    bare_place.start_engine("--rows", "2", "--step-ms", "1")
    with millrace.Client() as client:
        yield client


def test_results_come_in_the_order_of_the_prompts(client):
    prompts = [f"p{i}" for i in range(3_000)]
    results = list(client.map(prompts))
    assert [r.item for r in results] == prompts and [r.index for r in results] == list(range(3_000))
    assert all(r.ok for r in results)
    assert client.call("streams_request").get("streams", []) == []  # the map's own stream is gone


def test_a_loop_that_stops_after_the_last_result_leaves_no_stream(client):
    prompts = ["a", "b", "c"]
    assert [r.item for _, r in zip(prompts, client.map(prompts))] == prompts
    until(lambda: not client.call("streams_request").get("streams"), "removal")


def test_results_come_as_they_finish(slow):
    jobs = [{"prompt": f"p{i}", "priority": 4 if i < 20 else 0} for i in range(100)]
    indices = [r.index for r in slow.map(jobs, ordered=False)]
    assert sorted(indices) == list(range(100)) and indices != list(range(100))
    assert [r.index for r in slow.map(jobs, ordered=True)] == list(range(100))


def test_equal_prompts_each_have_a_result(client):
    assert len({r.job for r in client.map(["same"] * 10)}) == 10
    with pytest.raises(errors.UsageError, match="twice"):
        list(client.map([{"prompt": "x", "id": "a"}] * 2))


def test_bad_prompts_do_not_end_the_others(client):
    results = list(client.map(["a", {"prompt": "b", "n": 0}, {"prompt": object()}, "c"]))
    assert [r.ok for r in results] == [True, False, False, True]
    assert isinstance(results[1].error, errors.InvalidValueError)
    with pytest.raises(errors.InvalidValueError):
        results[1].text
    with pytest.raises(errors.InvalidValueError):
        client.generate("x", n=0).raise_for_error()


@pytest.mark.parametrize("many", ["map", "submit_each"])
def test_answers_come_while_a_slow_source_goes_on(client, monkeypatch, many):
    """It blocks for each item, so nothing else is done while one comes."""
    monkeypatch.setattr(_reader, "POLL_S", 3600)  # the doorbell alone tells of results
    came, pulled = [], []

    def source():
        while len(pulled) < 250 and len(came) < 3:
            time.sleep(0.05)
            pulled.append(f"p{len(pulled)}")
            yield pulled[-1]

    for answer in getattr(client, many)(source()):
        came.append(answer.index)
    assert came == list(range(len(pulled))) and len(pulled) < 250


def test_no_more_prompts_are_open_than_the_window_holds(client):
    pulled, given = [0], 0

    def prompts():
        for i in range(500):
            pulled[0] += 1
            yield f"p{i}"

    for result in client.map(prompts(), window=20):
        given += 1
        assert pulled[0] - given <= 20 + 1 + 20  # the window, and what was emitted with this one
    assert given == 500
    with pytest.raises(errors.UsageError):
        next(client.map(["x"], window=0))


def test_a_named_map_goes_on_after_a_kill_and_computes_nothing_twice(place, client):
    killed = place.python("-c", MAPPER, 400)
    first = killed.communicate()[0].splitlines()
    assert killed.returncode == -9 and len(first) == 401
    again = place.python("-c", MAPPER, -1)
    second = again.communicate()[0].splitlines()
    assert again.returncode == 0 and len(second) == 1000
    assert second[:401] == first
    assert client.status(stream="map-mine").high == 1000  # each job has ended once
    assert client.status().counts.completed == 1000


def test_a_prompt_that_changed_is_computed_again(client):
    old = [r.job for r in client.map(["a", "b"], name="m")]
    new = [r.job for r in client.map(["a", "c"], name="m")]
    assert old[0] == new[0] and old[1] != new[1]
    assert client.status(stream="map-m").high == 3


def test_a_stream_of_its_own_is_removed_with_the_last_result(client):
    """Nobody else knows it, so the broker would keep it for ever."""
    assert client.generate("x").ok and all(r.ok for r in client.map(["a", "b"]))
    until(lambda: not client.call("streams_request")["streams"], "removal")


def until_nothing_is_left(client):
    def nothing():
        streams = [one["stream"] for one in client.call("streams_request")["streams"]]
        return not client.status().counts.leased and streams in ([], ["results"])

    until(nothing, "end of what a map began")


def test_a_map_that_is_left_takes_its_jobs_back(bare_place):
    """Nobody else knows their stream, so their results would stay for as long as any."""
    bare_place.start_broker()
    bare_place.start_engine("--rows", "4", "--step-ms", "50")
    with millrace.Client() as client:
        client.submit({"id": "other", "prompt": "x", "not_before_us": 2 ** 60})
        for name in (None, "own"):
            with millrace.Client() as leaver:  # closes at once after the loop
                jobs = ({"prompt": f"p{i}", "id": name and f"{name}-{i}"} for i in range(500))
                for result in leaver.map(jobs, window=100):
                    if result.index == 5:
                        break
            until(lambda: client.status().counts.queued == 1, "cancellation")
        assert client.status().counts.cancelled >= 100
        until_nothing_is_left(client)
        assert client.status(job="other").state == "queued"


def test_a_generate_that_runs_out_of_time_leaves_nothing(bare_place):
    bare_place.start_broker()
    bare_place.start_engine("--step-ms", "300")

    async def main():
        async with millrace.AsyncClient() as one:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(one.generate("x"), 0.1)

    asyncio.run(main())
    with millrace.Client() as client:
        until_nothing_is_left(client)
        assert client.status().counts.completed == 0


def test_a_named_map_that_is_left_goes_on(client):
    for result in client.map((f"p{i}" for i in range(100)), name="left"):
        if result.index == 50:
            break
    until(lambda: not client.status().counts.queued + client.status().counts.leased, "end")
    assert client.status(stream="map-left").high > 50 and not client.status().counts.cancelled


def test_a_job_of_another_is_not_taken_back(slow):
    """The broker refuses an id that another has used, but the map may be left before it tells."""
    slow.submit({"id": "p20", "prompt": "x", "not_before_us": 2 ** 60})
    for result in slow.map([{"prompt": "p", "id": f"p{i}"} for i in range(40)]):
        break
    until_nothing_is_left(slow)
    assert slow.status(job="p20").state == "queued"


def test_leaving_a_map_early_is_fine(client):
    for result in client.map((f"p{i}" for i in range(10_000)), window=100):
        if result.index == 5:
            break
    assert client.generate("x").ok


def test_progress_goes_through_tqdm(client):
    import io

    import tqdm
    told = io.StringIO()
    bars = []

    def bar(**options):
        bars.append(tqdm.tqdm(file=told, mininterval=0, **options))
        return bars[0]

    assert len(list(client.map(["a", "b"], progress=bar))) == 2
    assert bars[0].n == 2 and bars[0].total == 2 and "2/2" in told.getvalue()
    assert len(list(client.map(["a"], progress=True))) == 1


def test_progress_without_tqdm_says_what_to_install(place):
    done = place.python("-c", "import sys; sys.modules['tqdm.auto'] = None\nimport millrace\n"
                        "next(millrace.Client().map(['x'], progress=True))",
                        stderr=subprocess.PIPE)
    assert "pip install tqdm" in done.communicate()[1]
