"""Tokens a second of the same jobs: `millrace run`, streams of `millrace serve`, and llama-server.

All sides compute greedy answers of the same length to the same prompts, with as many at once, and
each has the computer for itself. The time of a side is that of the engine's work alone: from the
first job's begin to the last one's end, without the loading of the model."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from .run import BIN

WORDS = "rain clouds rivers stones bread winter music lamps ships trains apples letters".split()


def prompts(count):
    """As many prompts of some forty tokens, no two with the same beginning."""
    return [f"{i}. Describe {WORDS[i % len(WORDS)]} and {WORDS[i // 7 % len(WORDS)]} to a child "
            "who has never seen either, in plain words, with an example from daily life, and say "
            f"why number {i} matters." for i in range(count)]


class Load:
    def __init__(self, model, streams, jobs, tokens):
        self.model, self.streams, self.jobs, self.tokens = model, streams, jobs, tokens

    def body(self, prompt):
        return {"prompt": prompt, "max_tokens": self.tokens, "temperature": 0, "ignore_eos": True}


def with_run(load):
    """Tokens a second of `millrace run`, by the times that its results tell."""
    with tempfile.TemporaryDirectory(prefix="mr-") as folder:
        source, target = pathlib.Path(folder, "jobs.jsonl"), pathlib.Path(folder, "results.jsonl")
        source.write_text("".join(json.dumps(load.body(x)) + "\n" for x in prompts(load.jobs)))
        subprocess.run([BIN / "millrace", "run", "--model", load.model, "--input", source,
                        "--output", target, "--max-batch", str(load.streams)], check=True,
                       capture_output=True)
        results = [json.loads(line)["response"]["body"] for line in target.open()]
    began = min(x["ended_us"] - x["times"]["total_us"] for x in results)
    ended = max(x["ended_us"] for x in results)
    made = sum(x["usage"]["completion_tokens"] for x in results)
    assert made == load.jobs * load.tokens, made
    return made / (ended - began) * 1e6


def streamed(load, address):
    """Tokens a second of streams at once, read by bench/http_load.cpp."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as bodies:
        for prompt in prompts(load.jobs):
            bodies.write(json.dumps({**load.body(prompt), "stream": True,
                                     "stream_options": {"include_usage": True}}) + "\n")
        bodies.flush()
        done = subprocess.run([BIN / "http_load", address, str(load.streams), bodies.name],
                              check=True, stdout=subprocess.PIPE, text=True)
    figures = json.loads(done.stdout)
    assert figures["tokens"] == load.jobs * load.tokens, figures
    return figures["tokens"] / figures["seconds"]


@contextlib.contextmanager
def ended(process):
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def with_serve(load):
    with tempfile.TemporaryDirectory(prefix="mr-") as folder, ended(subprocess.Popen(
            [BIN / "millrace", "serve", "--model", load.model, "--http", "127.0.0.1:0", "--json",
             "--folder", folder, "--max-batch", str(load.streams)], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True)) as server:
        for line in server.stdout:
            event = json.loads(line)
            if event["event"] == "listening":
                address = event["message"].split()[2]
            if event["event"] == "engine_ready":
                return streamed(load, address)
        raise SystemExit("millrace serve ended before its engine was ready")


def with_llama(load, program):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    context = load.streams * (load.tokens + 128)
    with ended(subprocess.Popen(
            [program, "-m", load.model, "--port", str(port), "-np", str(load.streams), "-c",
             str(context), "-t", str(os.cpu_count()), "-tb", str(os.cpu_count())],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)) as server:
        address = f"http://127.0.0.1:{port}"
        while server.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(address + "/health").close()
                return streamed(load, address)
            time.sleep(0.1)
        raise SystemExit(f"{program} ended with {server.returncode} before it served")
