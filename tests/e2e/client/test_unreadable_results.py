"""A stream contains a result that no reader can decode, such as a foreign engine might write.
Readers report that job as failed, and read on."""
import json
import subprocess
import threading

import msgpack
import pytest
import zmq
from patience import PATIENCE_S
from programs import completion, program
from stub_engine import result_of

SENSELESS = {"state": 7}


class ForeignBroker(threading.Thread):
    """Ends each job as soon as it is submitted; the second one with a result in unknown form."""

    def __init__(self, endpoint):
        super().__init__()
        self.endpoint = endpoint
        self.socket = zmq.Context.instance().socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(endpoint)
        self.entries = {}
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            if self.socket.poll(50):
                peer, frame = self.socket.recv_multipart()
                question = msgpack.unpackb(frame)
                kind, body = self.answer(question["kind"], question["body"])
                self.socket.send_multipart([peer, msgpack.packb(
                    {"v": 1, "kind": kind, "id": question["id"], "body": body})])
        self.socket.close()

    def answer(self, kind, body):
        if kind == "hello":
            return "welcome", {"broker": "foreign", "software": "foreign", "version": 1}
        if kind == "submit":
            return "submitted", {"answers": [self.submit(job) for job in body["jobs"]]}
        stream = body.get("stream", "results")
        entries = self.entries.setdefault(stream, [])
        if kind == "status_request":
            return "status_answer", {"counts": {"completed": len(entries)}, "epoch": "e",
                                     "first": 1, "high": len(entries)}
        assert kind == "fetch", kind
        return "data", {"stream": stream, "epoch": "e", "first": 1, "high": len(entries),
                        "entries": entries[body["from"] - 1:]}

    def submit(self, job):
        entries = self.entries.setdefault(job.get("stream", "results"), [])
        number = len(entries) + 1
        body = {"job": job["id"], "custom_id": job.get("custom_id", ""), "state": "completed",
                "result": result_of({"job": job["id"], "body": job})}
        entries.append({"number": number, "job": job["id"],
                        "body": SENSELESS if number == 2 else body})
        return {"job": job["id"], "known": False, "state": "queued"}

    def millrace(self, *words, expect, text=None):
        done = subprocess.run([program("millrace"), *words, "--broker", self.endpoint], text=True,
                              capture_output=True, input=text, timeout=PATIENCE_S, check=False)
        assert done.returncode == expect, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def foreign(tmp_path):
    broker = ForeignBroker(f"ipc://{tmp_path}/clients")
    broker.start()
    yield broker
    broker.ended.set()
    broker.join()


def check_second_is_named(errors, stream):
    assert [error is None for error in errors] == [True, False, True]
    assert errors[1]["code"] == "engine_failed" and errors[1]["hint"]
    assert f"result 2 of stream {stream}" in errors[1]["message"]


def test_submit_and_results_report_it_and_go_on(foreign, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(completion(name, "p") + "\n" for name in "abc"))
    waited = foreign.millrace("submit", str(jobs), "--wait", expect=1)
    check_second_is_named([line["error"] for line in waited], "results")
    assert waited[1]["error"]["line"] == 2
    response = waited[1]["response"]  # the fault is not the user's
    assert response["status_code"] == 500
    assert response["body"]["error"]["type"] == "server_error"
    read = foreign.millrace("results", expect=0)
    check_second_is_named([line["error"] for line in read], "results")
    assert [line["id"] for line in read] == [line["id"] for line in waited]
    # No reader can tell the batch of this job, so filters by batch show it.
    assert [line["id"] for line in foreign.millrace("results", "--from", "2", "--batch", "other",
                                                    expect=0)] == [read[1]["id"]]


def test_score_reports_it_and_goes_on(foreign):
    lines = foreign.millrace("score", "--ids", expect=1, text="[1, 2]\n[3, 4]\n[5, 6]\n")
    [stream] = [name for name in foreign.entries if name.startswith("score-")]
    assert [line["line"] for line in lines] == [1, 2, 3]
    check_second_is_named([line.get("error") for line in lines], stream)
