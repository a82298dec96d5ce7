"""`millrace top` and `status` where the broker has more batches or tenants than they tell of."""
import json
import subprocess
import threading

import msgpack
import zmq

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


def millrace(endpoint, *words):
    return subprocess.run([PROGRAM.with_name("millrace"), *words, "--broker", endpoint],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


def test_more_tenants_than_are_told_are_said_in_words(tmp_path, context):
    """As a broker of many tenants answers, which takes many keys."""
    answers = {"status_request": ("status_answer", {
                   "counts": {}, "queues": [{"tenant": "acme", "queued": 2}], "more_queues": True}),
               "batches_request": ("batches_answer", {"batches": []})}
    socket = context.socket(zmq.ROUTER)
    socket.linger = 0
    endpoint = f"ipc://{tmp_path}/s"
    socket.bind(endpoint)
    done = threading.Event()

    def serve():
        while not done.is_set():
            if socket.poll(50):
                route, frame = socket.recv_multipart()
                asked = msgpack.unpackb(frame)
                kind, body = answers.get(asked["kind"], ("welcome", {"broker": "b"}))
                socket.send_multipart([route, msgpack.packb(
                    {"v": 1, "kind": kind, "id": asked["id"], "body": body})])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert "first 1 tenants by name; there are more" in millrace(endpoint, "top", "--once")
        assert "first 1 tenants by name are told; there are more" in millrace(endpoint, "status")
        for words in (("top", "--once"), ("status",)):
            assert json.loads(millrace(endpoint, *words, "--json"))["more_queues"] is True
    finally:
        done.set()
        thread.join()
        socket.close()
