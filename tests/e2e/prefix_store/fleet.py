"""Runs of the real engine, each with a process of its own: on the real model, or on a tiny one."""
import json
import os
import pathlib
import subprocess

from patience import PATIENCE_S
from programs import program
from tiny_gguf import tiny_gguf

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Jobs begin alike, so that their beginning is worth keeping.
BEGINNING = "You sort letters by what they are about, and you answer in one word. " * 8
TINY_BEGINNING = BEGINNING[:160]  # a token is a byte, and the context has 256


def model_path():
    return os.environ.get("MILLRACE_MODEL") or subprocess.run(
        [ROOT / "ops" / "model"], check=True, capture_output=True,
        text=True).stdout.splitlines()[-1]


class Ran:
    def __init__(self, folder):
        lines = [json.loads(x) for x in (folder / "results").read_text("utf-8").splitlines()]
        bodies = {x["custom_id"]: x["response"]["body"] for x in lines}
        # Text, tokens and logprobs, as they are printed: exactly.
        self.choices = {name: body["choices"] for name, body in sorted(bodies.items())}
        self.cached = [body["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)
                       for body in bodies.values()]
        self.log = (folder / "results.millrace" / "engine.log").read_text("utf-8")


def jobs_after(beginning):
    return [{"custom_id": str(i), "prompt": f"{beginning}Letter {i}:", "max_tokens": 6,
             "temperature": 0.5 * (i % 2), "logprobs": 2} for i in range(4)]


def run(folder, *options, tiny=False, environment=()):
    """Runs the jobs in a new folder, with a new engine."""
    folder.mkdir()
    jobs = jobs_after(TINY_BEGINNING if tiny else BEGINNING)
    (folder / "jobs").write_text("".join(json.dumps(job) + "\n" for job in jobs), "utf-8")
    model = folder / "tiny.gguf" if tiny else model_path()
    if tiny:
        model.write_bytes(tiny_gguf())
    done = subprocess.run(
        [program("millrace"), "run", "--model", model, "--input", folder / "jobs",
         "--output", folder / "results", "--kv-memory", "64MiB", "--max-batch", "4", *options],
        env={**os.environ, **dict(environment)}, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return Ran(folder)
