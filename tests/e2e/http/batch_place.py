"""Lines of batches, and waits for what becomes of them."""
import io
import json

from http_place import until

CHAT = "/v1/chat/completions"


def chat_line(number, **body):
    return {"custom_id": f"line-{number}", "method": "POST", "url": CHAT,
            "body": {"model": "stub", "messages": [{"role": "user", "content": f"Say {number}"}],
                     **body}}


def text_of(lines):
    return "".join(json.dumps(x) + "\n" for x in lines)


def upload(client, lines, name="in.jsonl", **more):
    text = lines if isinstance(lines, str) else text_of(lines)
    return client.files.create(file=(name, io.BytesIO(text.encode())), purpose="batch", **more)


def begin(client, lines, window="24h", endpoint=CHAT, **more):
    return client.batches.create(input_file_id=upload(client, lines).id, endpoint=endpoint,
                                 completion_window=window, **more)


def ended(client, batch):
    over = ("completed", "failed", "expired", "cancelled")

    def look():
        now = client.batches.retrieve(batch if isinstance(batch, str) else batch.id)
        return now if now.status in over else None
    return until(look, "end of the batch")


def lines_of(client, file_id):
    if file_id is None:
        return []
    return [json.loads(x) for x in client.files.content(file_id).text.splitlines()]
