"""A whole job, file in to file out: 512 chats that share a system prompt, ours beside the peers.

The chats are made of texts that Debian installs everywhere (base-files). Every side gets the same
messages, draws greedily up to 128 tokens a chat, may reuse what prompts share, and writes one line
an answer. Ours is the whole command: start, model, queue on disk, results. The peers' clocks run
from their first request, when the model is loaded and warm. A peer that has not answered all when
its time is over, which is somewhat more than what it may take for our ratio to hold, is stopped
there: its ratio is then at least that.
"""
import concurrent.futures
import dataclasses
import http.client
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from .run import (BIN, ROOT, Failed, TookTooLong, Watch, json_in, last_line, run,
                  usable_cores)
from .shapes import BUSY

TEXTS = pathlib.Path("/usr/share/common-licenses")
SYSTEM_TEXT, USER_TEXTS = "GPL-3", ["Apache-2.0", "GPL-2", "LGPL-2.1", "MPL-2.0", "GFDL-1.3"]
SYSTEM_TOKENS, OUTPUT, SLOTS = 400, 128, 64
CHATS, QUICK_CHATS = 512, 64
LLAMA_RATIO, OPENVINO_RATIO = 5.0, 1.5
PATIENCE = {"llama-server": 5.5, "OpenVINO": 2.0}  # times our time
ROUNDS = 1  # of up to nine times our minute
LOADING_S = 60


@dataclasses.dataclass
class Side:
    seconds: float
    answers: int     # fewer than there are chats where it was stopped
    tokens: int      # drawn, of these answers together
    foreign: float = 0.0


def words_of(*names):
    return [word for name in names for word in (TEXTS / name).read_text().split()]


def system_prompt(count_tokens, words):
    """As many words as make SYSTEM_TOKENS tokens. count_tokens: of a list of texts."""
    counts = range(SYSTEM_TOKENS // 2, SYSTEM_TOKENS + 1)
    texts = [" ".join(words[:count]) for count in counts]
    for text, tokens in zip(texts, count_tokens(texts)):
        if tokens >= SYSTEM_TOKENS:
            return text
    raise Failed(f"{SYSTEM_TOKENS} words make fewer than {SYSTEM_TOKENS} tokens")


def user_prompts(number, words):
    """Passages of 10 to 209 words, each from another place."""
    out = []
    for i in range(number):
        size, at = 10 + i * 37 % 200, i * 613 % (len(words) - 210)
        out.append("Say in one paragraph what this passage means: "
                   + " ".join(words[at:at + size]))
    return out


def chats(model, number):
    def count_tokens(texts):
        done = subprocess.run([BIN / "millrace", "tokenize", "--model", model], text=True,
                              input="".join(text + "\n" for text in texts), capture_output=True)
        if done.returncode != 0:
            raise Failed(f"millrace tokenize: {done.stderr[-500:]}")
        return [len(json.loads(line)) for line in done.stdout.splitlines()]
    system = system_prompt(count_tokens, words_of(SYSTEM_TEXT))
    return [[{"role": "system", "content": system}, {"role": "user", "content": user}]
            for user in user_prompts(number, words_of(*USER_TEXTS))]


def body_of(messages):
    return {"messages": messages, "temperature": 0, "max_tokens": OUTPUT}


def read_answers(path, number):
    """Drawn tokens of the lines of OpenAI's batch output; Failed unless every one is an answer."""
    tokens = []
    for line in path.read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        if answer.get("error") or (answer["response"] or {}).get("status_code") != 200:
            raise Failed(f"a chat was not answered: {line[:500]}")
        tokens.append(answer["response"]["body"]["usage"]["completion_tokens"])
    if len(tokens) != number:
        raise Failed(f"{len(tokens)} of {number} chats were answered")
    return sum(tokens)


def ours(model, given, folder, _limit_s):
    jobs, results = folder / "jobs.jsonl", folder / "ours.jsonl"
    jobs.write_text("".join(
        json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
                    "body": body_of(messages)}) + "\n" for i, messages in enumerate(given)))
    done = run([BIN / "millrace", "run", "--model", model, "--input", jobs, "--output", results,
                "--max-batch", SLOTS, "--prefix-cache", "memory", "--restart", "--json"])
    return Side(done.seconds, len(given), read_answers(results, len(given)), done.foreign)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class LlamaServer:
    """llama-server on the same file, with a slot for each of 64 chats; a context manager."""

    def __init__(self, model, folder):
        program = last_line([ROOT / "bench/llama.sh", "llama-server"], timeout_s=7200)
        self.port, self.log = free_port(), open(folder / "llama-server.log", "w+")
        self.process = subprocess.Popen(
            [program, "-m", model, "--host", "127.0.0.1", "--port", str(self.port), "-np",
             str(SLOTS), "-c", str(SLOTS * 1024), "-t", str(usable_cores()), "-tb",
             str(usable_cores()), "-fa", "on", "-ctk", "f16", "-ctv", "f16", "-cb"],
            stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        self.__exit__()
        self.log.seek(0)
        raise Failed(f"llama-server did not come up: {self.log.read()[-800:]}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, messages):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({**body_of(messages), "cache_prompt": True}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise Failed(f"llama-server answered {answer.status}: {text[:500]}")
        return json.loads(text)


def llama_server(model, given, folder, limit_s):
    """As many chats in flight as there are slots, and some more, so that no slot ever waits."""
    watch = Watch()  # the server's time is known once it has ended
    with LlamaServer(model, folder) as server, \
            concurrent.futures.ThreadPoolExecutor(SLOTS + 16) as pool:
        server.ask([{"role": "user", "content": "Hello"}])
        begin = time.monotonic()
        asked = [pool.submit(server.ask, messages) for messages in given]
        done, late = concurrent.futures.wait(asked, limit_s, concurrent.futures.FIRST_EXCEPTION)
        for one in late:
            one.cancel()
        if late:
            server.process.kill()  # those that wait for it end
        answers = [one.result() for one in asked if one in done]
        with open(folder / "llama.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(answer) + "\n" for answer in answers)
        seconds = time.monotonic() - begin
    tokens = sum(answer["usage"]["completion_tokens"] for answer in answers)
    return Side(seconds, len(answers), tokens, watch.foreign())


def openvino(model, given, folder, limit_s):
    jobs = folder / "chats.json"
    jobs.write_text(json.dumps(given))
    python = last_line([ROOT / "bench/openvino.sh"], timeout_s=1800)
    spec = {"model": str(model), "chats": str(jobs), "output": str(folder / "openvino.jsonl"),
            "tokens": OUTPUT, "rows": SLOTS, "threads": usable_cores()}
    watch = Watch()
    try:
        done = run([python, ROOT / "bench/lib/openvino_job.py", json.dumps(spec)],
                   timeout_s=limit_s + LOADING_S)
    except TookTooLong:
        return Side(limit_s, 0, 0, watch.foreign())  # it answers all at once
    result = json_in(done.text)
    if result["answers"] != len(given):
        raise Failed(f"OpenVINO answered {result['answers']} of {len(given)} chats")
    return Side(result["seconds"], result["answers"], result["tokens"], done.foreign)


SIDES = {"ours": ours, "llama-server": llama_server, "OpenVINO": openvino}


def verdict(rounds, number):
    """The row of a list of {side: Side}. Ratios are of times, within one round."""
    def ratio(side):
        return statistics.median(r[side].seconds / r["ours"].seconds for r in rounds)

    def said(side):
        whole = all(r[side].answers == number for r in rounds)
        return f"{'' if whole else '> '}{ratio(side):.2f}"

    def rate(side):
        return statistics.median(r[side].answers / r[side].seconds for r in rounds)
    busy = max(side.foreign for r in rounds for side in r.values())
    fits = ratio("llama-server") >= LLAMA_RATIO and ratio("OpenVINO") >= OPENVINO_RATIO
    sides = ", ".join(f"{name} {side.answers} answers of {side.tokens} tokens in "
                      f"{side.seconds:.1f} s" for name, side in rounds[-1].items())
    return {"what": f"{number} chats of one system prompt of {SYSTEM_TOKENS} tokens, up to "
                    f"{OUTPUT} drawn, file to file, chats/s: {sides}; others {busy:.0%}",
            "ours": round(rate("ours"), 2), "peer": round(rate("llama-server"), 2),
            "peer_name": "llama-server, 64 slots",
            "ratio": f"{said('llama-server')}; OpenVINO {said('OpenVINO')}",
            "required": f">= {LLAMA_RATIO:g}; OpenVINO >= {OPENVINO_RATIO:g}",
            "holds": None if busy > BUSY else fits,
            "runs": [{name: dataclasses.asdict(side) for name, side in r.items()}
                     for r in rounds]}


def job(context):
    """The row of bench/compare."""
    given = chats(context.model, QUICK_CHATS if context.quick else CHATS)
    rounds = []
    for _ in range(ROUNDS):
        rounds.append({})
        for name, side in SIDES.items():
            limit_s = PATIENCE.get(name, 0) * (rounds[-1]["ours"].seconds if rounds[-1] else 0)
            with tempfile.TemporaryDirectory() as folder:
                rounds[-1][name] = side(context.model, given, pathlib.Path(folder), limit_s)
            print(f"{len(given)} chats, {name}: {rounds[-1][name]}", file=sys.stderr)
    return verdict(rounds, len(given))
