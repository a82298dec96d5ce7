"""The client in schemas/README.md runs as printed, against a broker that answers with vectors."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import msgpack
import zmq
from patience import PATIENCE_S

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "schemas"


def answer_to(kind):
    answers = {"hello": "welcome", "submit": "submitted", "fetch": "data"}
    frame = msgpack.unpackb((FOLDER / "vectors" / (answers[kind] + ".msgpack")).read_bytes())
    return frame


def serve(router, seen, ended):
    """Answers until the client has ended. Each fetch gets the end of one job; before the second
    end the stream was trimmed."""
    entries = answer_to("fetch")["body"]["entries"]  # one completed, the other failed
    while not ended.is_set():
        if not router.poll(50):
            continue
        peer, frame = router.recv_multipart()
        request = msgpack.unpackb(frame)
        seen.append(request["kind"])
        answer = answer_to(request["kind"]) | {"id": request["id"]}
        if request["kind"] == "fetch":
            number = request["body"]["from"]
            answer["body"]["entries"] = entries[number - 1:number]
            if number == 2 and seen.count("fetch") == 2:
                answer = {**answer, "kind": "trimmed",
                          "body": {"stream": "results", "epoch": "e", "first": 2}}
        router.send_multipart([peer, msgpack.packb(answer)])


def test_the_client_of_the_readme_runs():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", text, re.DOTALL).group(1)
    with (tempfile.TemporaryDirectory(prefix="mr-") as runtime, zmq.Context() as context,
          context.socket(zmq.ROUTER) as router):
        router.linger = 0
        (pathlib.Path(runtime) / "millrace").mkdir()
        router.bind(f"ipc://{runtime}/millrace/clients")
        seen, ended = [], threading.Event()
        broker = threading.Thread(target=serve, args=(router, seen, ended))
        broker.start()
        try:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False,
                                  env={**os.environ, "XDG_RUNTIME_DIR": runtime})
        finally:
            ended.set()
            broker.join()
    assert done.returncode == 0, done.stderr
    assert seen == ["hello", "submit", "fetch", "fetch", "fetch"]
    completed, failed = done.stdout.splitlines()[-2:]
    assert completed == "1  Paris" and failed.startswith("2 {'code': ")
