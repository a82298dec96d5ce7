"""Following a stream over kills of the reader and of the broker: no result is lost or doubled."""
import asyncio
import gc
import json
import random
import subprocess
import sys
import time

import millrace
import pytest
from client_place import until
from millrace import errors

# Reads COUNT results of the stream into a file, slowly enough to be killed while it does.
READER = """
import sys, time
import millrace
path, count = sys.argv[1], int(sys.argv[2])
millrace.output.COMMIT_S = 0.02
with millrace.Client() as client, millrace.Output(path) as out:
    done = out.position.number if out.position else 0
    for result in client.results("mine", after=out.position, limit=count - done):
        out.write({"number": result.number, "job": result.job, "text": result.text}, result)
        if result.number % 20 == 0:
            time.sleep(0.002)
"""


def submit(client, count, stream="mine", **fields):
    jobs = ({"prompt": f"p{i}", "id": f"{stream}-{i}"} for i in range(count))
    summary = client.submit_many(jobs, stream=stream, **fields)
    assert summary.stored == count, summary
    return summary


def numbers(path):
    return [json.loads(line)["number"] for line in path.read_text().splitlines()]


def test_a_reader_that_is_killed_goes_on_where_its_output_ends(place, client, tmp_path):
    """The broker is killed in between, too."""
    count, seed = 4_000, random.randrange(2 ** 32)
    print("seed", seed)
    chance = random.Random(seed)
    path = tmp_path / "answers.jsonl"
    submit(client, count)
    kills = 0
    while True:
        reader = place.python("-c", READER, path, count)
        try:
            assert reader.wait(chance.uniform(0.4, 0.8)) == 0
            break
        except subprocess.TimeoutExpired:
            pass
        if kills == 2:
            place.kill_broker()
            place.start_broker()
        reader.kill()
        reader.wait()
        kills += 1
        if kills > 8:  # let it come to its end
            assert place.python("-c", READER, path, count).wait() == 0
            break
    assert kills > 0
    assert numbers(path) == list(range(1, count + 1))
    jobs = [json.loads(line)["job"] for line in path.read_text().splitlines()]
    assert sorted(jobs) == sorted(f"mine-{i}" for i in range(count))


def test_an_output_is_cut_to_what_its_position_covers(client, tmp_path):
    path = tmp_path / "out"
    submit(client, 3)
    with millrace.Output(path) as out:
        for result in client.results("mine", limit=2):
            out.write(f"{result.number}\n", result)
    with open(path, "a") as file:
        file.write("3\nhalf a li")  # written, but its position was not
    with millrace.Output(path) as out:
        assert out.position.number == 2 and path.read_text() == "1\n2\n"
        out.add("a")
        out.write(b"b\n", next(client.results("mine", after=out.position)))
        out.add("of a fourth result, which never came")
    assert path.read_text() == "1\n2\nab\n"


def test_everything_goes_on_when_the_broker_was_killed(place, client):
    """Results are being read, and jobs submitted, while the broker is killed and started again."""
    submit(client, 500)
    read = []
    for result in client.results("mine", limit=1_000):
        read.append(result.number)
        if len(read) == 300:
            place.kill_broker()
            place.start_broker()
            submit(client, 500, "mine2")  # another session state, the same client
            jobs = [{"prompt": f"q{i}", "id": f"more-{i}"} for i in range(500)]
            assert client.submit_many(jobs, stream="mine").stored == 500
    assert read == list(range(1, 1_001))
    assert len(list(client.results("mine2", limit=500))) == 500


def test_a_session_that_the_broker_has_ended_begins_again(client):
    """As after five minutes of silence: the broker no longer knows this client."""
    link = client._link
    link.ask("goodbye", {})
    until(lambda: all(q.sent for q in list(link._questions.values())), "goodbye")
    link._questions.clear()
    assert client.submit("x", stream="mine").ok
    assert next(client.results("mine")).ok


def test_a_cursor_of_the_broker_moves_over_what_was_taken(client):
    submit(client, 5)
    seen = []
    for result in client.results("mine", cursor="c"):
        seen.append(result.number)
        if len(seen) == 3:
            break  # the third is not done with: it comes again
    assert [r.number for r in client.results("mine", cursor="c", limit=3)] == [3, 4, 5]
    assert list(client.results("mine", limit=0)) == []
    with pytest.raises(errors.UsageError, match="below 0"):  # it waited for ever
        next(client.results("mine", limit=-1))
    until(lambda: client.call("cursors_request", stream="mine")["cursors"][0]["number"] == 5,
          "move of the cursor")


def test_a_cursor_is_left_while_the_broker_is_away(place, client, caplog):
    """The end of the iteration raised an error of futures, not of Millrace."""
    submit(client, 5)
    with millrace.Client(connect_timeout_s=0.3) as hasty:
        results = hasty.results("mine", cursor="c")
        assert [next(results).number for _ in range(3)] == [1, 2, 3]
        place.kill_broker()
        results.close()
        assert not any("cursor" in one for one in caplog.messages)  # it may still move
    assert "the cursor c of the stream mine may not have moved" in caplog.messages[-1]


def test_a_cursor_that_is_left_keeps_nobody_else_waiting(place, client):
    """The end of an asynchronous iteration waited in the loop, for a broker that it would start."""
    submit(client, 5)

    async def main():
        async with millrace.AsyncClient() as one:
            results = one.results("mine", cursor="c")
            assert [(await results.__anext__()).number for _ in range(3)] == [1, 2, 3]
            place.kill_broker()
            left = asyncio.ensure_future(results.aclose())
            await asyncio.sleep(0)
            await asyncio.get_running_loop().run_in_executor(None, place.start_broker)
            await left
            await one.status()  # the question before it has its answer
        return client.call("cursors_request", stream="mine")["cursors"][0]["number"]

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_an_iteration_keeps_its_client(client, kind):
    """Nobody else may hold it, as where a function returns what there is to iterate over."""
    client.submit_many(["a", "b"], stream="s")
    links = []

    def new():
        one = getattr(millrace, kind)()
        links.append(one._link)
        return one

    async def listed(items):
        return [item async for item in items]

    def all_of(items):
        gc.collect()
        return asyncio.run(listed(items)) if kind == "AsyncClient" else list(items)

    assert [result.number for result in all_of(new().results("s", limit=2))] == [1, 2]
    assert [receipt.ok for receipt in all_of(new().submit_each(["x", "y"]))] == [True, True]
    assert [result.ok for result in all_of(new().map(["x", "y"]))] == [True, True]
    left = new().partials("s")
    gc.collect()
    assert not links[-1]._closing
    del left
    until(lambda: not any(link._thread.is_alive() for link in links), "end of the sessions")


def test_results_that_are_gone_and_other_ledgers_are_told(place, client):
    submit(client, 5)
    position = list(client.results("mine", limit=5))[1].position
    client.call("trim", stream="mine", first=5)
    with pytest.raises(errors.TrimmedError) as caught:
        next(client.results("mine"))
    assert caught.value.facts["first"] == 5
    assert [r.number for r in client.results("mine", skip_trimmed=True, limit=1)] == [5]
    with pytest.raises(errors.EpochChangedError):
        next(client.results("mine", after=position._replace(epoch="other")))
    with pytest.raises(errors.UsageError, match="belongs to the stream mine"):
        next(client.results("results", after=str(position)))
    assert list(client.results("nosuch", follow=False)) == []


def test_a_position_may_be_stored_with_the_rows_of_a_database(client, tmp_path):
    import sqlite3
    submit(client, 10)
    for limit in (4, 6):
        rows = sqlite3.connect(tmp_path / "db")
        rows.execute("create table if not exists answers (job primary key, text, position)")
        last = rows.execute("select position from answers order by rowid desc").fetchone()
        for result in client.results("mine", after=last and last[0], limit=limit):
            with rows:
                rows.execute("insert into answers values (?, ?, ?)",
                             (result.job, result.text, str(result.position)))
        rows.close()
    rows = sqlite3.connect(tmp_path / "db")
    assert rows.execute("select count(*) from answers").fetchone() == (10,)


@pytest.mark.memory
def test_memory_does_not_grow_with_what_was_read(place, client):
    """A reader of 30,000 results holds as much as one of 10,000."""
    submit(client, 30_000)
    sizes = []
    for result in client.results("mine", limit=30_000):
        if result.number in (10_000, 30_000):
            with open("/proc/self/statm") as file:
                sizes.append(int(file.read().split()[1]) * 4096)
    assert sizes[1] - sizes[0] < 8 * 2 ** 20, sizes


def test_ctrl_c_ends_a_wait(place):
    program = place.python("-u", "-c", "import millrace, sys\nclient = millrace.Client()\n"
                           "print('waits')\nnext(client.results('mine'))", stderr=subprocess.PIPE)
    assert program.stdout.readline() == "waits\n"
    time.sleep(0.2)
    program.send_signal(2)
    assert "KeyboardInterrupt" in program.communicate()[1]
    assert sys.version_info >= (3, 9)
