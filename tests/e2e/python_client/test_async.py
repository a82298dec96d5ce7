"""The same for asyncio, also with asynchronous sources."""
import asyncio
import threading
from concurrent.futures import Future

import millrace
import pytest
from millrace import errors
from millrace._flow import END, LATER, Pull, Source, Wait, afinish, finish
from millrace._flows import submit_each


async def prompts(count, pause_s=0.0):
    for i in range(count):
        await asyncio.sleep(pause_s)
        yield f"p{i}"


def test_submit_follow_and_map(client):
    async def main():
        async with millrace.AsyncClient() as one:
            receipt = await one.submit("x", stream="s", id="a")
            assert (await one.submit("x", stream="s", id="a")).known
            assert (await one.wait(receipt)).ok
            assert (await one.submit_many(prompts(2_500), stream="s")).stored == 2_500
            numbers = [r.number async for r in one.results("s", limit=2_501)]
            assert numbers == list(range(1, 2_502))
            assert [r.index async for r in one.map(prompts(300))] == list(range(300))
            found = [r.index async for r in one.map(["a", "b"], ordered=False)]
            assert sorted(found) == [0, 1]
            assert (await one.generate("x")).text == "a stub's answer"
            assert [r.ok async for r in one.submit_each(["a", {"prompt": "b", "n": 0}])] == [
                True, False]
            assert (await one.status()).counts.failed == 0
            with pytest.raises(errors.NotFoundError):
                await one.status(job="nosuch")

    asyncio.run(main())


def test_results_come_while_the_source_is_slow(client):
    """A source that waits for the result of what it gave before would else wait for ever."""
    async def main():
        came = asyncio.Event()
        came.set()

        async def source():
            for i in range(5):
                await came.wait()
                came.clear()
                yield f"p{i}"

        async with millrace.AsyncClient() as one:
            count = 0
            async for _ in one.map(source()):
                count += 1
                came.set()
            assert count == 5

    asyncio.run(main())


def test_a_source_is_left_where_the_iteration_ends(client):
    """The task that waits for the next item would else take it, and be told of at the end."""
    async def main():
        others = asyncio.all_tasks()
        queue = asyncio.Queue()
        queue.put_nowait("p0")

        class Endless:
            def __aiter__(self):
                return self

            async def __anext__(self):
                return await queue.get()

        async with millrace.AsyncClient() as one:
            for iterate in (one.map, one.submit_each):
                answers = iterate(Endless())
                assert (await answers.__anext__()).ok
                await answers.aclose()
                assert asyncio.all_tasks() == others
                queue.put_nowait("p1")
                await asyncio.sleep(0)
                assert queue.qsize() == 1

    asyncio.run(main())


def test_a_source_may_give_none():
    """It is an item like any other: that the next one has yet to come is told otherwise."""
    async def nothings():
        yield None
        yield None

    def all_of(source):
        found = []
        while not source.ended:
            item = yield from source.next()
            if item is LATER:
                yield Wait(source.waiting)
            else:
                found.append(item)
        return found

    async def main():
        return await afinish(all_of(Source(nothings())))

    assert asyncio.run(main()) == [None, None, END]
    assert finish(all_of(Source(["a", None, "b"]))) == ["a", None, "b", END]


def test_a_source_is_not_waited_for_while_the_broker_has_no_room():
    """Once the item is there, such a wait would end at once, again and again."""
    class Link:
        welcome = millrace._states.Welcome({})
        asked = []

        def ask(self, kind, body):
            self.asked.append(Future())
            return self.asked[-1]

    link, coming = Link(), Future()
    flow = submit_each(link, prompts(2), {})
    assert isinstance(flow.send(None), Pull)
    assert isinstance(flow.send("p0"), Pull)
    step = flow.send(coming)
    assert isinstance(step, Wait) and set(step.futures) == {coming, *link.asked}
    link.asked[0].set_exception(errors.OverloadedError("full", retry_ms=1000))
    step = flow.send(None)
    assert isinstance(step, Wait) and step.futures == [] and 0 < step.timeout_s <= 1


def test_a_future_that_is_waited_for_again_and_again_is_asked_once():
    """That of a stream in which nothing happens is waited for each second, for days."""
    class Counted(Future):
        asked = 0

        def add_done_callback(self, fn):
            self.asked += 1
            super().add_done_callback(fn)

    done, other = Counted(), Counted()

    def flow():
        for _ in range(50):
            yield Wait([done, other], 0.0001)
        threading.Timer(0.01, done.set_result, [None]).start()
        while not done.done():
            yield Wait([done, other])
        return "woken"

    assert asyncio.run(afinish(flow())) == "woken"
    assert (done.asked, other.asked) == (1, 1)


def test_many_at_once_in_one_loop(client):
    async def main():
        async with millrace.AsyncClient() as one:
            texts = await asyncio.gather(*(one.generate(f"p{i}") for i in range(200)))
            assert [r.text for r in texts] == ["a stub's answer"] * 200
            await one.status()  # the link has taken all that was handed to it before
            assert not one._link._listeners and not one._link._highs

    asyncio.run(main())


def test_a_task_that_is_cancelled_ends(client):
    async def main():
        async with millrace.AsyncClient() as one:
            async def follow():
                async for _ in one.results("nothing"):
                    pass

            task = asyncio.ensure_future(follow())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await one.generate("x")).ok

    asyncio.run(main())


@pytest.mark.parametrize("turns", range(6))
def test_a_task_is_cancelled_though_what_it_waits_for_has_just_come(turns):
    """For some turns of the loop a future is done and the task has yet to go on."""
    async def main():
        first, second = Future(), Future()

        def flow():
            while not first.done():
                yield Wait([first], 60)
            while not second.done():
                yield Wait([second], 60)

        task = asyncio.ensure_future(afinish(flow()))
        await asyncio.sleep(0.02)
        first.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0.02)
        second.set_result(None)
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_a_wait_ends_with_its_time():
    def flow():
        for _ in range(3):
            yield Wait([Future()], 0.01)
        return "gone on"

    assert asyncio.run(afinish(flow())) == "gone on"


def test_the_broker_is_killed_in_between(place, client):
    async def main():
        async with millrace.AsyncClient() as one:
            count = 0
            async for _ in one.map(prompts(1_000), window=100):
                count += 1
                if count == 200:
                    place.kill_broker()
                    await asyncio.get_running_loop().run_in_executor(None, place.start_broker)
            assert count == 1_000

    asyncio.run(main())


def test_no_broker_is_told(bare_place):
    async def main():
        async with millrace.AsyncClient(connect_timeout_s=0.3):
            pass

    with pytest.raises(errors.UnreachableError):
        asyncio.run(main())


def test_both_clients_have_the_same_methods():
    import inspect
    public = {name: one for name, one in vars(millrace.Client).items() if not name.startswith("_")}
    public.pop("map_table")  # tables are made by programs that block
    for name, one in public.items():
        other = getattr(millrace.AsyncClient, name)
        if callable(one):
            assert list(inspect.signature(one).parameters) == list(
                inspect.signature(other).parameters), name


def test_a_cursor_moves_though_the_client_closes_at_once(client, caplog):
    client.submit_many((f"p{i}" for i in range(40)), stream="s")
    assert len(list(client.results("s", limit=40))) == 40

    async def read_two():
        async with millrace.AsyncClient() as one:
            found = []
            async for result in one.results("s", cursor="c"):
                found.append(result.number)
                if len(found) == 2:
                    break
            return found

    # The second result is not counted as read: the user may have stopped at it for an error.
    assert [asyncio.run(read_two()) for _ in range(30)] == [[i, i + 1] for i in range(1, 31)]
    assert not caplog.messages
