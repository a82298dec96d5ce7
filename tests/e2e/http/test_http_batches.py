"""Batches through the unmodified openai package: from the file to the results, and what goes wrong
on the way."""
import asyncio
import io

import openai
import pytest
from batch_place import CHAT, begin, chat_line, ended, lines_of, text_of, upload
from http_keys import client_of
from http_place import until


def check_lines(good, bad, total):
    """Each line of the input has one line of results."""
    ids = [x["custom_id"] for x in good + bad]
    assert len(ids) == len(set(ids)) == total
    assert set(ids) == {f"line-{i}" for i in range(total)}


def test_a_batch_from_file_to_results(client):
    lines = [chat_line(i, seed=i) for i in range(200)]
    lines[7]["body"]["temperature"] = -1
    batch = begin(client, lines, metadata={"name": "evening"})
    assert batch.object == "batch" and batch.id.startswith("batch_")
    assert (batch.status, batch.endpoint, batch.completion_window) == ("validating", CHAT, "24h")
    assert batch.expires_at == batch.created_at + 86_400 and batch.errors is None
    assert batch.metadata == {"name": "evening"} and batch.output_file_id is None
    done = ended(client, batch)
    assert done.status == "completed"
    counts = done.request_counts
    assert (counts.total, counts.completed, counts.failed) == (200, 199, 1)
    assert (batch.created_at <= done.in_progress_at <= done.finalizing_at <= done.completed_at)
    assert done.failed_at is done.expired_at is done.cancelled_at is None
    good, bad = lines_of(client, done.output_file_id), lines_of(client, done.error_file_id)
    check_lines(good, bad, 200)
    assert all(x["error"] is None and x["response"]["status_code"] == 200 for x in good)
    body = good[0]["response"]["body"]
    assert body["object"] == "chat.completion" and body["choices"][0]["message"]["content"]
    (wrong,) = bad
    assert wrong["custom_id"] == "line-7" and wrong["response"]["status_code"] == 400
    assert wrong["error"]["line"] == 8
    assert wrong["response"]["body"]["error"]["param"] == "temperature"
    for file_id, name in ((done.output_file_id, "output"), (done.error_file_id, "error")):
        file = client.files.retrieve(file_id)
        assert file.purpose == "batch_output" and file.filename == f"{batch.id}_{name}.jsonl"
        assert file.bytes == len(client.files.content(file_id).content)
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)


def test_the_asyncio_client_and_completions(place):
    async def work():
        async with openai.AsyncOpenAI(base_url=place.url + "/v1", api_key="none",
                                      max_retries=0) as client:
            lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                      "body": {"model": "stub", "prompt": f"Say {i}"}} for i in range(20)]
            file = await client.files.create(file=("x", io.BytesIO(text_of(lines).encode())),
                                             purpose="batch")
            made = [await client.batches.create(
                input_file_id=file.id, endpoint="/v1/completions", completion_window="24h",
                output_expires_after={"anchor": "created_at", "seconds": 7200})
                for _ in range(3)]
            while True:
                batches = [await client.batches.retrieve(x.id) for x in made]
                if all(x.status == "completed" for x in batches):
                    break
                await asyncio.sleep(0.05)
            text = (await client.files.content(batches[0].output_file_id)).text
            file = await client.files.retrieve(batches[0].output_file_id)
            return [x.id for x in made], text, file, [x.id async for x in client.batches.list(
                limit=1)]
    made, text, file, listed = asyncio.run(work())
    assert len(text.splitlines()) == 20 and '"object":"text_completion"' in text
    assert file.expires_at == file.created_at + 7200
    assert listed == made[::-1]


def test_answers_that_begin_with_their_prompts(client):
    """As over HTTP, whose answers are those of batches."""
    bodies = [{"model": "stub", "prompt": prompt, **more} for prompt, more in (
        ("Say one: ", {"echo": True}), ("Say two: ", {"echo": False}),
        ("Say \u00e9: ", {"echo": True, "n": 2}), ([5, 6], {"echo": True}), ("Say", {}))]
    bodies.append({**bodies[0], "echo": "yes"})
    lines = [{"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions", "body": body}
             for i, body in enumerate(bodies)]
    done = ended(client, begin(client, lines, endpoint="/v1/completions"))
    assert (done.request_counts.completed, done.request_counts.failed) == (5, 1)
    for line in lines_of(client, done.output_file_id):
        body = bodies[int(line["custom_id"].removeprefix("line-"))]
        texts = [x["text"] for x in line["response"]["body"]["choices"]]
        assert texts == [x.text for x in client.completions.create(**body).choices]
        if body.get("echo") and isinstance(body["prompt"], str):
            assert all(x.startswith(body["prompt"]) for x in texts), texts
    (wrong,) = lines_of(client, done.error_file_id)
    assert wrong["custom_id"] == "line-5"
    assert wrong["response"]["body"]["error"]["param"] == "echo"


def test_files_that_are_refused(client):
    good = chat_line(1)
    cases = [
        ("{oops\n", "invalid_json_line", 1, None),
        (text_of([good]) + "[1]\n", "invalid_json_line", 2, None),
        (text_of([good, good]), "duplicate_custom_id", 2, "custom_id"),
        (text_of([{**good, "custom_id": None}]), "missing_required_parameter", 1, "custom_id"),
        (text_of([{**good, "custom_id": 7}]), "invalid_value", 1, "custom_id"),
        (text_of([{**good, "method": "GET"}]), "invalid_value", 1, "method"),
        (text_of([{**good, "url": "/v1/completions"}]), "invalid_url", 1, "url"),
        (text_of([{**good, "url": "/v1/embeddings"}]), "invalid_value", 1, "url"),
        (text_of([{**good, "url": None}]), "missing_required_parameter", 1, "url"),
        (text_of([{**good, "body": None}]), "missing_required_parameter", 1, "body"),
        (text_of([{**good, "body": "text"}]), "invalid_value", 1, "body"),
        (text_of([{"custom_id": "a", "prompt": "plain"}]), "missing_required_parameter", 1, "url"),
        ("", "empty_file", None, None), ("\n \n", "empty_file", None, None)]
    for text, code, line, param in cases:
        failed = ended(client, begin(client, text))
        assert failed.status == "failed" and failed.failed_at >= failed.created_at, text
        assert failed.output_file_id is None and failed.in_progress_at is None
        assert failed.errors.object == "list"
        (error,) = failed.errors.data
        assert (error.code, error.line, error.param) == (code, line, param), (text, error)
        assert error.message
        assert param != "custom_id" or code != "invalid_value" or \
            error.message == "custom_id is a whole number, not a string. Put it in quotes"
    many = ended(client, begin(client, "{\n" * 500))
    assert len(many.errors.data) == 100 and many.errors.data[-1].line == 100


def test_requests_that_are_refused(client):
    file = upload(client, [chat_line(1)])
    fields = dict(input_file_id=file.id, endpoint=CHAT, completion_window="24h")

    def refused(kind, param, **changes):
        with pytest.raises(kind) as caught:
            client.batches.create(**{**fields, **changes})
        assert caught.value.param == param, caught.value
        return caught.value.body
    bad = openai.BadRequestError
    assert "/v1/embeddings" in refused(bad, "endpoint", endpoint="/v1/embeddings")["message"]
    refused(bad, "completion_window", completion_window="tomorrow")
    refused(bad, "metadata", metadata={"a": "x" * 513})
    refused(bad, "output_expires_after", output_expires_after={"anchor": "created_at",
                                                               "seconds": 1})
    refused(openai.NotFoundError, "input_file_id", input_file_id="file-none")
    done = ended(client, client.batches.create(**fields))
    assert "batch_output" in refused(bad, "input_file_id",
                                     input_file_id=done.output_file_id)["message"]
    client.files.delete(file.id)
    assert refused(openai.NotFoundError, "input_file_id")["code"] == "not_found"
    for call in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError) as caught:
            call("batch_none")
        assert caught.value.body["type"] == "not_found_error"
    with pytest.raises(bad):
        client.batches.list(limit=101)


def test_a_batch_that_is_cancelled(make_place):
    place = make_place()
    place.start_engine("--step-ms", "50", "--job-steps", "20", "--capacity", "4", "--rows", "4")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        batch = begin(client, [chat_line(i) for i in range(100)])
        until(lambda: client.batches.retrieve(batch.id).request_counts.completed, "first result")
        cancelling = client.batches.cancel(batch.id)
        assert cancelling.status == "cancelling" and cancelling.cancelling_at
        assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
        done = ended(client, batch)
        assert done.status == "cancelled" and done.cancelled_at >= done.cancelling_at
        good, bad = lines_of(client, done.output_file_id), lines_of(client, done.error_file_id)
        check_lines(good, bad, 100)
        assert good and {x["error"]["code"] for x in bad} == {"cancelled"}
        assert done.request_counts.total == 100 and done.request_counts.failed == len(bad)


def test_a_window_that_closes(make_place):
    place = make_place()
    place.start_engine("--step-ms", "50", "--job-steps", "10", "--capacity", "2", "--rows", "2")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        batch = begin(client, [chat_line(i) for i in range(200)], window="3s")
        assert batch.expires_at == batch.created_at + 3
        done = ended(client, batch)
        assert done.status == "expired" and done.expired_at >= done.expires_at
        good, bad = lines_of(client, done.output_file_id), lines_of(client, done.error_file_id)
        check_lines(good, bad, 200)
        assert bad and {x["error"]["code"] for x in bad} <= {"expired", "deadline_passed"}


def test_a_file_that_is_deleted_while_its_batch_runs(make_place):
    place = make_place()
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        file = upload(client, [chat_line(i, model="*") for i in range(50)])
        batch = client.batches.create(input_file_id=file.id, endpoint=CHAT,
                                      completion_window="24h")
        client.files.delete(file.id)
        assert not client.files.list().data
        place.start_engine()
        done = ended(client, batch)
        assert done.status == "completed" and done.request_counts.completed == 50
        data = place.folder / "ledger" / "http" / "files" / f"{file.id}.data"
        until(lambda: not data.exists(), "removal of the hidden file")


def test_batches_of_other_tenants(keyed):
    mine, other = (client_of(keyed, keyed.keys.new(x, x, "submit,read")) for x in ("a", "b"))
    until(lambda: mine.models.list().data, "engine")
    batch = begin(mine, [chat_line(i) for i in range(10)])
    for call in (other.batches.retrieve, other.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call(batch.id)
    assert not other.batches.list().data
    done = ended(mine, batch)
    assert done.status == "completed" and len(lines_of(mine, done.output_file_id)) == 10
    with pytest.raises(openai.NotFoundError):
        other.files.content(done.output_file_id)
    submitter = client_of(keyed, keyed.keys.new("s", "a", "submit"))
    with pytest.raises(openai.PermissionDeniedError):
        submitter.batches.create(input_file_id=batch.input_file_id, endpoint=CHAT,
                                 completion_window="24h")
    with pytest.raises(openai.PermissionDeniedError):
        submitter.batches.list()


@pytest.mark.long
@pytest.mark.memory
def test_a_hundred_thousand_lines(make_place):
    """The broker holds neither the file nor its lines nor the results."""
    place = make_place()
    place.start_engine("--capacity", "2048", "--rows", "2048")
    total = 100_000
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        ended(client, begin(client, [chat_line(i) for i in range(2_000)]))
        before = place.memory_mib()
        batch = begin(client, [chat_line(i) for i in range(total)])
        most = 0
        while client.batches.retrieve(batch.id).status in ("validating", "in_progress",
                                                           "finalizing"):
            most = max(most, place.memory_mib())
        done = client.batches.retrieve(batch.id)
        assert done.status == "completed" and done.request_counts.completed == total
        with client.files.with_streaming_response.content(done.output_file_id) as answer:
            ids = {line.split('"custom_id":"')[1].split('"')[0] for line in answer.iter_lines()}
        assert len(ids) == total
        assert most - before < 64, (before, most)
