"""An engine without a model: speaks the engine's side of the protocol, answers each job after a
delay, and misbehaves on request. Environment: STUB_DELAY_MS (per job), STUB_ROWS (jobs at once),
STUB_LOG (a line "start ID" and "end ID" for each execution), STUB_ABORT_ON (dies while it runs a
job with this text in its body), STUB_HANG_ON (stops making steps), STUB_FAIL_ON and STUB_FAIL_CODE
(ends a job with this text in its body with this error, STUB_FAIL_TIMES times), STUB_NO_START (a
code and a message, which it prints before it exits with 3 and without joining), STUB_FINGERPRINT,
STUB_KV (its policies, separated by ";"; empty: it reports none), STUB_DEVICES (what it prints for
--print-devices).
"""
import argparse
import os
import signal
import struct
import sys
import time

import msgpack
import zmq

DELAY_S = float(os.environ.get("STUB_DELAY_MS", "0")) / 1000
ROWS = int(os.environ.get("STUB_ROWS", "64"))
ABORT_ON = os.environ.get("STUB_ABORT_ON", "").encode()
FAIL_ON = os.environ.get("STUB_FAIL_ON", "").encode()
FAIL_CODE = os.environ.get("STUB_FAIL_CODE", "context_exceeded")
FAIL_TIMES = int(os.environ.get("STUB_FAIL_TIMES", "1000000"))
HANG_ON = os.environ.get("STUB_HANG_ON", "").encode()
KV = [x for x in os.environ.get("STUB_KV", "f16;f16/f16 x30").split(";") if x]
FINGERPRINT = os.environ.get("STUB_FINGERPRINT", "5" * 32)


class Log:
    """Writes each line with one call, so that a kill never leaves half a line."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if path else None

    def write(self, text):
        if self.file is not None:
            os.write(self.file, (text + "\n").encode())


def result_of(lease):
    job = lease["body"]
    if job.get("task") == "score":
        ids = job.get("tokens", b"\0\0\0\0" * 3)
        count = len(ids) // 4
        logprobs = struct.pack(f"<{count}f", *([float("nan")] + [-0.5] * (count - 1)))
        generation = {
            "choices": [], "prompt": ids,
            "prompt_logprobs": {"top": 0, "token": logprobs, "top_ids": b"", "top_logprobs": b""}}
    else:
        text = "answer to " + str(job.get("prompt") or job.get("messages") or "tokens")[:40]
        generation = {"choices": [{"index": 0, "text": text, "tokens": struct.pack("<2I", 1, 2),
                                   "finish_reason": "stop"}]}
    generation["usage"] = {"prompt_tokens": 3, "cached_tokens": 0, "completion_tokens": 2}
    generation["effective"] = {"model": "stub", "fingerprint": FINGERPRINT, "kv": (KV or [""])[-1],
                               "math": "exact", "seed": 1, "max_tokens": 16}
    return generation


class Engine:
    def __init__(self, endpoint, name):
        self.name = name
        self.socket = zmq.Context().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.log = Log(os.environ.get("STUB_LOG"))
        self.running = {}  # lease -> (lease, end time)
        self.unconfirmed = set()
        self.steps = 0
        self.hung = False
        self.failed = {}  # job -> how often
        self.next_id = 1

    def send(self, kind, body):
        self.next_id += 1
        self.socket.send(msgpack.packb({"v": 1, "kind": kind, "id": self.next_id, "body": body}))

    def hello(self):
        name = self.name or f"stub-{os.getpid()}"
        kv = {"kv_policies": KV, "kv_policy": KV[0], "kv": KV[-1], "kv_bytes_per_token": 23040.0,
              "kv_compression": 1.0} if KV else {}
        self.send("hello", {"role": "engine", "name": name, "software": "stub",
                            "instance": f"stub-{os.getpid()}",
                            "model": "stub", "fingerprint": FINGERPRINT, **kv,
                            "context_tokens": 2048})

    def credit(self):
        return max(0, ROWS - len(self.running))

    def take_leases(self, leases):
        for lease in leases:
            body = msgpack.packb(lease["body"])
            self.log.write(f"start {lease['job']} {'alone' if lease.get('alone') else 'among'}")
            if HANG_ON and HANG_ON in body:
                self.hung = True
            done = time.monotonic() + DELAY_S
            if ABORT_ON and ABORT_ON in body:
                self.log.write(f"abort {lease['job']}")
                os.kill(os.getpid(), signal.SIGABRT)
            self.running[lease["lease"]] = (lease, done)
            if lease["body"].get("partials"):
                self.send_partials(lease)

    def send_partials(self, lease):
        """The answer's text in two pieces and its tokens one by one."""
        text = result_of(lease)["choices"][0]["text"]
        for i, piece in enumerate((text[:6], text[6:])):
            self.send("partials", {"entries": [{
                "lease": lease["lease"], "choice": 0, "first_token": i,
                "tokens": struct.pack("<I", i + 1), "text": piece}]})

    def end_jobs(self):
        now = time.monotonic()
        done = [] if self.hung else [i for i, (_, at) in self.running.items() if at <= now]
        if not done:
            return
        ends = []
        for lease_id in done:
            lease, _ = self.running.pop(lease_id)
            self.log.write(f"end {lease['job']}")
            ends.append({"lease": lease_id, **self.end_of(lease)})
            self.unconfirmed.add(lease_id)
        self.send("ends", {"ends": ends})
        self.send("ready", {"credit": self.credit()})

    def end_of(self, lease):
        times = self.failed.get(lease["job"], 0)
        if FAIL_ON and FAIL_ON in msgpack.packb(lease["body"]) and times < FAIL_TIMES:
            self.failed[lease["job"]] = times + 1
            return {"state": "failed",
                    "error": {"code": FAIL_CODE, "message": "the stub fails it", "hint": ""}}
        return {"state": "completed", "result": result_of(lease)}

    def take(self, frame):
        message = msgpack.unpackb(frame, strict_map_key=False)
        kind, body = message["kind"], message["body"]
        if kind == "welcome":
            self.send("ready", {"credit": self.credit()})
        elif kind == "leases":
            self.take_leases(body["leases"])
        elif kind == "committed":
            self.unconfirmed -= set(body["committed"]) | set(body["stale"])
        elif kind == "heartbeat_answer":
            for lease_id in body["lost"]:
                self.running.pop(lease_id, None)
            self.cancel(body["cancelled"])
            if body["drain"]:
                sys.exit(0)
        elif kind == "refused" and body["error"]["code"] == "unexpected_message":
            self.unconfirmed.clear()  # lost with the previous broker; their leases lapse
            self.hello()
        elif kind == "refused":
            print("refused:", body, file=sys.stderr, flush=True)

    def cancel(self, leases):
        for lease_id in leases:
            if lease_id not in self.running:
                continue
            self.running.pop(lease_id)
            self.unconfirmed.add(lease_id)
            self.send("ends", {"ends": [{
                "lease": lease_id, "state": "cancelled",
                "error": {"code": "cancelled", "message": "the job was cancelled", "hint": ""}}]})

    def run(self):
        self.hello()
        beat = time.monotonic()
        while True:
            if self.socket.poll(5 if self.running else 50):
                self.take(self.socket.recv())
            if not self.hung:
                self.steps += 1
            self.end_jobs()
            if time.monotonic() - beat > 0.5:
                beat = time.monotonic()
                self.send("heartbeat", {"leases": list(self.running) + list(self.unconfirmed),
                                        "steps": self.steps, "tokens": 0, "credit": self.credit()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", default="")
    parser.add_argument("--model", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--device", default="")
    parser.add_argument("--print-devices", action="store_true")
    options, _ = parser.parse_known_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if os.environ.get("STUB_NO_START"):
        print("stub-engine: " + os.environ["STUB_NO_START"], file=sys.stderr)
        sys.exit(3)
    if options.print_devices:
        print(os.environ["STUB_DEVICES"])
        return
    if os.environ.get("STUB_LOG"):
        Log(os.environ["STUB_LOG"]).write(f"device {options.device}")
    Engine(options.broker, options.name).run()


if __name__ == "__main__":
    main()
