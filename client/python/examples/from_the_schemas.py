"""python from_the_schemas.py BROKER PROMPTS OUTPUT: a client made from schemas/ alone. It submits
the lines of a file, follows their results, and goes on after kills of itself or of the broker."""
import json, os, sys, time, msgpack, zmq  # noqa: E401

broker, prompts, output = sys.argv[1:]
stream = "lines-" + os.path.basename(output)
sock, number = None, 0


def connect():
    global sock
    if sock is not None:
        sock.close(linger=0)
    sock = zmq.Context.instance().socket(zmq.DEALER)
    sock.connect(broker)
    ask("hello", name="from the schemas")


def ask(kind, **body):  # one question and its answer; all questions may be repeated
    global number
    while True:
        number += 1
        sock.send(msgpack.packb({"v": 1, "kind": kind, "id": number, "body": body}))
        while sock.poll(2000):
            answer = msgpack.unpackb(sock.recv())
            if answer["id"] != number:
                continue
            error = answer["body"].get("error") if answer["kind"] == "refused" else None
            if error is None:
                return answer["body"]
            if error["code"] != "unexpected_message" and "retry_ms" not in error:
                raise SystemExit(f"{error['code']}: {error['message']}")
            time.sleep(error.get("retry_ms", 0) / 1000)
            break
        if kind != "hello":
            connect()


connect()
lines = [line.rstrip("\n") for line in open(prompts, encoding="utf-8")]
jobs = [{"id": f"{stream}/{i}", "prompt": line, "stream": stream} for i, line in enumerate(lines)]
while jobs:  # a job is on disk once it has an answer; one that is sent twice is known
    answers = ask("submit", jobs=jobs[:1000])["answers"]
    wrong = [one["error"] for one in answers if "error" in one and "retry_ms" not in one["error"]]
    if wrong:
        raise SystemExit(wrong[0])
    jobs = [job for job, one in zip(jobs, answers) if "error" in one] + jobs[1000:]
with open(output, "a+b") as out:  # each line of the output has its number: it is the position
    out.seek(0)
    done = [line for line in out.read().splitlines(True) if line.endswith(b"\n")]
    out.truncate(sum(map(len, done)))  # half a line, written as the program was killed
    while len(done) < len(lines):
        for entry in ask("fetch", **{"stream": stream, "from": len(done) + 1})["entries"]:
            end = entry["body"]
            text = end["result"]["choices"][0]["text"] if "result" in end else end["error"]
            done.append(json.dumps({"number": entry["number"], "job": end["job"], "text": text}))
            out.write(done[-1].encode() + b"\n")
        out.flush()
        time.sleep(0.05)
