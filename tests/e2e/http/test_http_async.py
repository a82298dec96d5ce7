"""The asyncio client of the openai package: many requests at once."""
import asyncio

import openai
from http_place import HELLO


def run(place, work):
    async def with_client():
        async with openai.AsyncOpenAI(base_url=place.url + "/v1", api_key="none",
                                      max_retries=0) as client:
            return await work(client)
    return asyncio.run(with_client())


async def streamed(client, **fields):
    stream = await client.chat.completions.create(model="stub", messages=HELLO, stream=True,
                                                  **fields)
    return "".join([x.choices[0].delta.content or "" async for x in stream])


def test_many_requests_at_once(place):
    async def work(client):
        return await asyncio.gather(*(client.chat.completions.create(model="stub", messages=HELLO)
                                      for _ in range(200)))
    answers = run(place, work)
    assert len({x.id for x in answers}) == 200
    assert {x.choices[0].message.content for x in answers} == {"one two three four"}


def test_many_streams_at_once(place):
    async def work(client):
        return await asyncio.gather(*(streamed(client) for _ in range(200)))
    assert set(run(place, work)) == {"one two three four"}


def test_a_task_that_is_cancelled(make_place):
    place = make_place()
    place.start_engine("--step-ms", "100", "--job-steps", "1000")

    async def work(client):
        task = asyncio.create_task(streamed(client))
        while not await asyncio.to_thread(place.jobs, "leased"):
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while not await asyncio.to_thread(place.jobs, "cancelled"):
            await asyncio.sleep(0.02)
    run(place, work)
