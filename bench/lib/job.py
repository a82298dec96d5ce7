"""A whole job from input file to output file: chats that share a system prompt, ours and the peers.

Every side gets the same messages (chats.py), draws greedily up to 128 tokens a chat, may reuse what
prompts share, and writes one line for each answer. Our time is that of the whole command: start,
model, queue on disk, results. A peer's time runs from its first request, when the model is loaded
and warm, until its last answer is written.

Each peer reads the file format in which it is fastest, found by one short trial of every format.
All sides' output is counted in the same way: the tokens that our tokenizer makes of the answers'
texts. The ratio is that of output tokens a second, because greedy texts of other formats end
elsewhere.

CHATS is chosen so that the whole row takes about 20 minutes on two cores. By the speed rows of such
a machine, and some 300 prompt and 100 drawn tokens a chat, 256 chats take ours half a minute and
OpenVINO and llama-server one and a half to two and a half minutes each: up to five minutes a round,
in three or four rounds. All sides get the same number of chats.
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

from .chats import SYSTEM_TOKENS, chats, output_tokens
from .phase import held, spread
from .run import BIN, ROOT, Failed, Watch, json_in, last_line, run, usable_cores
from .shapes import LLAMA, OPENVINO, Shape
from .sides import quantized

OUTPUT, SLOTS = 128, 64
CHATS, QUICK_CHATS = 256, 64
OURS, SERVER, GENAI = "ours", "llama-server", "OpenVINO"
RATIOS = {SERVER: 5.0, GENAI: 1.5}
ROUNDS, MOST_ROUNDS = 3, 4  # a round takes minutes
LONGEST_S = 4 * 3600  # ends a side that hangs; no working side takes nearly as long
# The formats of each peer, as sides of the speed rows, with the load of their trial.
KINDS = {**LLAMA, **{name: kind for name, (kind, kv) in OPENVINO.items() if kv == "f16"}}
FORMATS = {SERVER: tuple(LLAMA), GENAI: tuple(name for name in KINDS if name not in LLAMA)}
TRIAL = Shape(SLOTS, 128, 32, tuple(KINDS), rounds=1)


@dataclasses.dataclass
class Side:
    seconds: float
    texts: list     # the answers
    foreign: float  # share of the cores that other processes took


@dataclasses.dataclass
class Done:
    """What one side did in the whole job."""
    seconds: float
    answers: int
    tokens: int     # of the answers' texts, by our tokenizer
    foreign: float

    @property
    def rate(self):
        return self.tokens / self.seconds


def body_of(messages):
    return {"messages": messages, "temperature": 0, "max_tokens": OUTPUT}


def read_answers(path):
    """The texts in OpenAI's batch output. Raises Failed if a line is no answer."""
    texts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        answer = json.loads(line)
        if answer.get("error") or (answer["response"] or {}).get("status_code") != 200:
            raise Failed(f"a chat was not answered: {line[:500]}")
        texts.append(text_of(answer["response"]["body"]))
    return texts


def text_of(completion):
    return completion["choices"][0]["message"]["content"] or ""


def ours(model, given, folder):
    jobs, results = folder / "jobs.jsonl", folder / "ours.jsonl"
    jobs.write_text("".join(
        json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
                    "body": body_of(messages)}) + "\n" for i, messages in enumerate(given)))
    done = run([BIN / "millrace", "run", "--model", model, "--input", jobs, "--output", results,
                "--max-batch", SLOTS, "--prefix-cache", "memory", "--restart", "--json"],
               timeout_s=LONGEST_S)
    return Side(done.seconds, read_answers(results), done.foreign)


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


def llama_server(model, given, folder):
    """Keeps a few more chats in flight than there are slots, so that no slot ever waits."""
    watch = Watch()  # counts the server's CPU time, which is known once it has ended
    with LlamaServer(model, folder) as server, \
            concurrent.futures.ThreadPoolExecutor(SLOTS + 16) as pool:
        server.ask([{"role": "user", "content": "Hello"}])
        begin = time.monotonic()
        asked = [pool.submit(server.ask, messages) for messages in given]
        _, late = concurrent.futures.wait(asked, LONGEST_S, concurrent.futures.FIRST_EXCEPTION)
        if late:  # a request has failed, or hangs
            for one in late:
                one.cancel()
            server.process.kill()  # ends the requests that wait for it
        answers = [one.result() for one in asked if one not in late]
        with open(folder / "llama.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(answer) + "\n" for answer in answers)
        seconds = time.monotonic() - begin
    return Side(seconds, [text_of(answer) for answer in answers], watch.foreign())


def openvino(model, given, folder):
    jobs, answers = folder / "chats.json", folder / "openvino.jsonl"
    jobs.write_text(json.dumps(given))
    python = last_line([ROOT / "bench/openvino.sh"], timeout_s=1800)
    spec = {"model": str(model), "chats": str(jobs), "output": str(answers), "tokens": OUTPUT,
            "rows": SLOTS, "threads": usable_cores()}
    done = run([python, ROOT / "bench/lib/openvino_job.py", json.dumps(spec)],
               timeout_s=LONGEST_S)
    texts = [json.loads(line)["text"] for line in
             answers.read_text(encoding="utf-8").splitlines()]
    return Side(json_in(done.text)["seconds"], texts, done.foreign)


PROGRAMS = {OURS: ours, SERVER: llama_server, GENAI: openvino}


def whole_job(program, model, given, own_model):
    """Runs the job with one program and counts its output. Raises Failed unless every chat has an
    answer."""
    with tempfile.TemporaryDirectory() as folder:
        side = program(model, given, pathlib.Path(folder))
    if len(side.texts) != len(given):
        raise Failed(f"{len(side.texts)} of {len(given)} chats were answered")
    return Done(side.seconds, len(side.texts), output_tokens(own_model, side.texts), side.foreign)


def fastest_formats(trial):
    """peer -> the side of its fastest format in the trial's Rounds, without the peers that have
    none."""
    out = {}
    for peer, names in FORMATS.items():
        rates = {name: statistics.median(trial.of(name, lambda speed: speed.total))
                 for name in names if trial.of(name)}
        if rates:
            out[peer] = max(rates, key=rates.get)
    return out


def verdict(rounds, formats, number, failures):
    """The row of the table. failures: peer, or side of the trial -> why it is missing."""
    rate = {name: spread(rounds.of(name, lambda done: done.rate)) for name in rounds.sides()}
    missing = {**failures, **rounds.failures}
    if OURS not in rate:
        raise Failed(f"ours: {missing.get(OURS, 'it did not run')}")
    said, fits, headline = [], [], []
    for peer, least in RATIOS.items():
        if peer in rate:
            ratios = rounds.ratios(OURS, peer, lambda done: done.rate)
            said.append(f"{formats[peer]}: {held(ratios, least)}")
            fits.append(statistics.median(ratios) >= least)
            headline.append(f"job {statistics.median(ratios):.2f} times {peer}")
    holds = rounds.verdict(all(fits))
    if holds and missing:
        holds = None
    lacks = f"; lacks {', '.join(missing)}" if missing else ""
    return {"what": f"{number} chats of one system prompt of {SYSTEM_TOKENS} tokens, up to "
                    f"{OUTPUT} drawn, file to file: output tokens/s{lacks}",
            "ours": rate[OURS].text(),
            "peer": rate[SERVER].text() if SERVER in rate else "-",
            "peer_name": f"llama-server, {SLOTS} slots", "ratio": "; ".join(said) or "-",
            "required": ", ".join(f">= {least:g} {peer}" for peer, least in RATIOS.items()),
            "mark": rounds.mark, "headline": "; ".join(headline) or "job without peers",
            "holds": holds, "runs": rounds.record()}


def table(rounds, formats):
    def row(name):
        done = rounds.of(name)
        return [f"{name} ({formats[name]})" if name in formats else name,
                spread([one.seconds for one in done]).text(1), str(done[0].answers),
                spread([one.tokens for one in done]).text(),
                spread([one.rate for one in done]).text(),
                spread([one.answers / one.seconds for one in done]).text(2)]
    return ("The whole job, by side", ["side", "seconds", "answers", "output tokens",
                                       "output tokens/s", "answers/s"],
            [row(name) for name in PROGRAMS if name in rounds.sides()])


def job(context):
    """Makes the row of bench/compare."""
    given = chats(context.model, QUICK_CHATS if context.quick else CHATS)
    trial = context.speeds.measure(TRIAL, TRIAL.rounds)
    formats = fastest_formats(trial)
    models = {OURS: context.model}
    for peer, name in formats.items():
        models[peer] = quantized(context.model, KINDS[name])

    def measure(name):
        done = whole_job(PROGRAMS[name], models[name], given, context.model)
        print(f"{len(given)} chats, {name}: {done}", file=sys.stderr)
        return done
    rounds = context.guard.in_turns(list(models), measure, context.rounds(ROUNDS),
                                    most=1 if context.quick else MOST_ROUNDS)

    def made():
        context.tables.append(table(rounds, formats))
        return verdict(rounds, formats, len(given), trial.failures)
    return made
