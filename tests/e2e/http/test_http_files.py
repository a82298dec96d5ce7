"""Files through the unmodified openai package: shapes, pages, errors, other tenants, tricks."""
import asyncio
import io
import subprocess

import openai
import pytest
from batch_place import chat_line, upload
from http_keys import client_of
from http_place import program, until


def test_a_file_from_upload_to_deletion(client):
    text = '{"custom_id": "a"}\n'
    file = upload(client, text, "lines \u00e9.jsonl")
    assert file.id.startswith("file-") and file.object == "file" and file.status == "processed"
    assert (file.bytes, file.filename, file.purpose) == (19, "lines \u00e9.jsonl", "batch")
    assert file.created_at > 1_700_000_000 and file.expires_at is None
    assert client.files.retrieve(file.id) == file
    answer = client.files.content(file.id)
    assert answer.text == text and answer.response.headers["Content-Length"] == "19"
    gone = client.files.delete(file.id)
    assert (gone.id, gone.object, gone.deleted) == (file.id, "file", True)
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError) as caught:
            call(file.id)
        assert caught.value.body["type"] == "not_found_error"
        assert caught.value.body["code"] == "not_found" and file.id in caught.value.body["message"]


def test_pages(client):
    ids = [upload(client, "{}\n").id for _ in range(5)]
    assert [x.id for x in client.files.list()] == ids[::-1]
    assert [x.id for x in client.files.list(order="asc")] == ids
    page = client.files.list(order="asc", limit=2)
    assert [x.id for x in page.data] == ids[:2] and page.has_more
    assert (page.to_dict()["first_id"], page.to_dict()["last_id"]) == (ids[0], ids[1])
    assert [x.id for x in client.files.list(order="asc", limit=2)] == ids  # page after page
    assert client.files.list(after=ids[1], limit=10).data[0].id == ids[0]
    assert not client.files.list(purpose="batch_output").data
    assert len(client.files.list(purpose="batch").data) == 5
    for wrong in ({"limit": 0}, {"limit": 10_001}, {"after": "file-none"}, {"order": "up"}):
        with pytest.raises(openai.BadRequestError) as caught:
            client.files.list(**wrong)
        assert [caught.value.param] == list(wrong)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_files_that_are_deleted_while_they_are_listed(client, order):
    ids = [upload(client, "{}\n").id for _ in range(5)]
    deleted = []
    for file in client.files.list(limit=2, order=order):
        client.files.delete(file.id)
        deleted.append(file.id)
    assert deleted == (ids if order == "asc" else ids[::-1])
    assert not client.files.list().data


def test_times_after_which_files_expire(client):
    file = upload(client, "{}\n", expires_after={"anchor": "created_at", "seconds": 3600})
    assert file.expires_at == file.created_at + 3600
    for wrong in ({"anchor": "now", "seconds": 3600}, {"anchor": "created_at", "seconds": 60}):
        with pytest.raises(openai.BadRequestError) as caught:
            upload(client, "{}\n", expires_after=wrong)
        assert caught.value.param == "expires_after"


def test_uploads_that_are_refused(place, client):
    for purpose, code in (("fine-tune", "invalid_value"), ("", "missing_field")):
        with pytest.raises(openai.BadRequestError) as caught:
            client.files.create(file=("a", b"x"), purpose=purpose)
        assert (caught.value.code, caught.value.param) == (code, "purpose")
        assert caught.value.type == "invalid_request_error"
    status, body, _ = place.post("/v1/files", {"purpose": "batch"})
    assert status == 400 and "multipart/form-data" in body["error"]["hint"]
    form = (b"--border\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            b"--border--\r\n")
    status, body, _ = place.post("/v1/files", form,
                                 **{"Content-Type": "multipart/form-data; boundary=border"})
    assert status == 400 and body["error"]["param"] == "file"
    assert body["error"]["code"] == "missing_field"
    assert not client.files.list().data
    kept = [x for x in (place.folder / "ledger" / "http").rglob("file-*")]
    assert not kept, kept


def test_a_file_that_is_too_large(place):
    """The size is told before anything is sent, or found while it comes."""
    head = ("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
            "boundary=x\r\nContent-Length: 600000000\r\n\r\n")
    with place.connect() as connection:
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(65536)


def test_the_bytes_of_a_tenants_files_have_a_bound(make_place):
    place = make_place("--http-files-size", "64K")
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as client:
        first = upload(client, "x" * 40_000)
        for text in ("x" * 40_000, "x" * 400_000):
            with pytest.raises(openai.BadRequestError) as caught:
                upload(client, text)
            assert caught.value.code == "limit_exceeded" and caught.value.param == "file"
            assert "at most 64 KiB" in caught.value.body["message"]
            assert "--http-files-size" in caught.value.body["hint"]
        upload(client, "x" * 20_000)
        client.files.delete(first.id)
        upload(client, "x" * 40_000)
        assert sum(x.bytes for x in client.files.list()) == 60_000


def test_a_large_file_is_never_held(place, client):
    """100 MB up and down cost the broker a few megabytes."""
    upload(client, "{}\n")
    before = place.memory_mib()
    text = ("x" * 999 + "\n") * 100_000
    file = upload(client, text)
    assert file.bytes == 100_000_000
    most = place.memory_mib()
    with client.files.with_streaming_response.content(file.id) as answer:
        got = sum(len(x) for x in answer.iter_bytes(1 << 20))
    assert got == file.bytes
    assert max(most, place.memory_mib()) - before < 32


@pytest.mark.parametrize("name", ["..", "../../broker.log", "%2e%2e%2fledger.sqlite", "file-",
                                  "file-../../x", "file-%00", "x" * 5000])
def test_tricks_with_ids(place, client, name):
    file = upload(client, "{}\n")
    for path in (f"/v1/files/{name}", f"/v1/files/{name}/content", f"/v1/batches/{name}",
                 f"/v1/files/{file.id}/../{name}"):
        with place.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status = int(connection.recv(65536).split()[1])
        assert status in (400, 404), path


def test_files_of_other_tenants(keyed):
    mine, other = (client_of(keyed, keyed.keys.new(x, x, "submit,read")) for x in ("a", "b"))
    reader = client_of(keyed, keyed.keys.new("r", "a", "read"))
    file = upload(mine, [chat_line(1)])
    assert reader.files.retrieve(file.id) == file
    with pytest.raises(openai.PermissionDeniedError):
        upload(reader, "{}\n")
    with pytest.raises(openai.PermissionDeniedError):
        reader.files.delete(file.id)
    assert not other.files.list().data
    for call in (other.files.retrieve, other.files.content, other.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(file.id)
    with pytest.raises(openai.NotFoundError) as caught:
        other.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions",
                             completion_window="24h")
    assert caught.value.param == "input_file_id"
    with pytest.raises(openai.AuthenticationError):
        client_of(keyed, "sk-" + "0" * 64).files.list()
    assert mine.files.retrieve(file.id) == file


def test_many_uploads_at_once(place):
    async def work():
        async with openai.AsyncOpenAI(base_url=place.url + "/v1", api_key="none",
                                      max_retries=0) as client:
            files = await asyncio.gather(*(
                client.files.create(file=(f"{i}.jsonl", io.BytesIO(b"x" * i)), purpose="batch")
                for i in range(1, 51)))
            return files, [x async for x in client.files.list()]
    files, listed = asyncio.run(work())
    assert {(x.filename, x.bytes) for x in files} == {(f"{i}.jsonl", i) for i in range(1, 51)}
    assert {x.id for x in listed} == {x.id for x in files}


def test_a_server_that_keeps_no_files(tmp_path):
    broker = subprocess.Popen(
        [program("millrace-broker"), "--ledger", "memory:", "--listen", f"ipc://{tmp_path}/c",
         "--listen-engines", f"ipc://{tmp_path}/e", "--listen-doorbell", "", "--http",
         "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
    try:
        url = until(lambda: next((x.split()[1] for x in broker.stdout if x.startswith("http ")),
                                 None), "address")
        with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
            for call in (client.files.list, client.batches.list,
                         lambda: client.files.retrieve("file-1"),
                         lambda: upload(client, "{}\n")):
                with pytest.raises(openai.NotFoundError) as caught:
                    call()
                assert "--http-files" in caught.value.body["hint"]
    finally:
        broker.terminate()
        assert broker.wait(60) == 0
