"""The sides of the comparison: each is prepared once and then measures shapes.

The speeds of all sides are counted in the same way: prompt speed comes from runs that draw one
token a row, generation speed from the steps in which every row draws a token and no prompt is left.
llama.cpp's batched benchmark times the two phases itself, which is the same: its prompt phase ends
with the logits of the first token.
"""
import dataclasses
import json
import re

from .limits import vocabulary_of
from .run import BIN, CACHE, ROOT, Failed, Refused, json_in, last_line, run, usable_cores
from .shapes import (LLAMA, MIXED_FILE, MIXED_KIND, OPENVINO, OURS, OURS_EXACT, OURS_MIXED)

THREADS = usable_cores()


@dataclasses.dataclass
class Speed:
    prompt: float    # tokens/s
    generate: float  # tokens/s
    total: float     # all tokens over the whole time
    foreign: float   # share of the cores that other processes took
    details: dict


def full_steps(rows, times_ms, drawn):
    """(steps, seconds) of the steps in which all rows drew, without the first such step, which may
    hold prompts."""
    full = [i for i, count in enumerate(drawn) if count == rows]
    if not full:
        return 0, 0.0
    last = full[0]
    while last + 1 < len(drawn) and drawn[last + 1] == rows:
        last += 1
    return last - full[0], (times_ms[last] - times_ms[full[0]]) / 1e3


def until_all_drew(rows, result):
    """Seconds to the end of the first step in which all rows drew. They hold the prompts, and the
    tokens that rows with a finished prompt drew meanwhile."""
    ends = result["step_ends_ms"]
    return result["total_s"] - (ends[-1] - ends[result["step_tokens"].index(rows)]) / 1e3


def of_times(shape, result, foreign):
    """The Speed from the times of openvino_run.py."""
    steps, full_s = full_steps(shape.rows, result["step_ends_ms"], result["step_tokens"])
    if steps < shape.output / 4 or full_s <= 0:
        raise Failed(f"{shape.name}: all rows drew at once in {steps} steps only")
    prompt_s = result["prompt_s"] or until_all_drew(shape.rows, result)
    return Speed(shape.rows * shape.prompt / prompt_s, shape.rows * steps / full_s,
                 shape.rows * shape.context / result["total_s"], foreign, result)


def parse_llama(shape, text):
    """The JSON line of llama-batched-bench. Other lines of its output are its log."""
    lines = [line for line in text.split("\n") if line.startswith("{") and '"speed_tg"' in line]
    if len(lines) != 1:
        raise Failed(f"llama-batched-bench printed {len(lines)} results: {text[-300:]!r}")
    result = json.loads(lines[0])
    if (result["pl"], result["pp"], result["tg"]) != (shape.rows, shape.prompt, shape.output):
        raise Failed(f"llama-batched-bench ran another shape: {lines[0]}")
    return result


class Llama:
    """llama.cpp. Its own quantizer makes a format that the model file does not have. With `copied`
    it computes one prompt and copies the keys and values to the other rows."""

    def __init__(self, kind, model, kv="f16", flash="on", copied=False):
        self.program = last_line([ROOT / "bench/llama.sh"], timeout_s=3600)
        self.model = quantized(model, kind)
        self.copied, self.kv = copied, ["-fa", flash, "-ctk", kv, "-ctv", kv]

    def measure(self, shape):
        # 256 more tokens, because the benchmark needs room for rounding.
        context = shape.rows * shape.context + 256
        copied = ["-pps"] if self.copied or shape.generation_only else []
        done = run([self.program, "-m", self.model, "-c", context, "-npp", shape.prompt, "-ntg",
                    shape.output, "-npl", shape.rows, "-t", THREADS, "-tb", THREADS, *self.kv,
                    *copied, "--output-format", "jsonl"])
        result = parse_llama(shape, done.text)
        return Speed(result["speed_pp"], result["speed_tg"], result["speed"], done.foreign, result)


class OpenVino:
    """OpenVINO GenAI's continuous batching on a GGUF file."""

    def __init__(self, kind, kv, model, prompt_run=True):
        self.python = last_line([ROOT / "bench/openvino.sh"], timeout_s=1800)
        self.model, self.kv, self.prompt_run = quantized(model, kind), kv, prompt_run
        self.vocabulary = vocabulary_of(self.model)

    def measure(self, shape):
        spec = {"model": str(self.model), "kv": self.kv, "threads": THREADS, "rows": shape.rows,
                "prompt": shape.prompt, "output": shape.output, "vocabulary": self.vocabulary,
                "prompt_run": self.prompt_run and not shape.generation_only}
        done = run([self.python, ROOT / "bench/lib/openvino_run.py", json.dumps(spec)])
        result = json_in(done.text)
        if "refused" in result:
            # Its messages name sources by where they were built, which says nothing here.
            why = re.sub(r"/\S+/(?=\S)", "", result["refused"])
            raise Refused(f"OpenVINO GenAI {result['version']} refuses {self.model.name}: {why}")
        return of_times(shape, result, done.foreign)


class Ours:
    """Our engine in its own process, without queue and files."""

    def __init__(self, math, model, kv_memory=None):
        self.math, self.model, self.kv_memory = math, model, kv_memory

    def measure(self, shape, *more):
        words = [BIN / "engine_bench", "--model", self.model, "--jobs", shape.rows, "--prompt",
                 shape.prompt, "--output", shape.output, "--max-batch", max(64, shape.rows), *more]
        if self.math:
            words += ["--math", self.math]
        if shape.generation_only:
            words += ["--generation-only"]
        if self.kv_memory:
            words += ["--kv-memory", self.kv_memory]
        if shape.headroom:
            words += ["--headroom", shape.headroom]
        done = run(words)
        result = json_in(done.text)
        if result["generate_steps"] < shape.output / 4:
            raise Failed(f"{shape.name}: all rows drew at once in too few steps: {result}")
        return Speed(result["prompt_tok_s"], result["generate_tok_s"], result["total_tok_s"],
                     done.foreign, result)


def quantized(model, kind):
    """The model in that format: the file itself, or one that llama.cpp's quantizer makes of it.
    With the kind None it is the file itself."""
    if kind is None or kind in model.name:
        return model
    made = CACHE / "peers" / model.name.replace("Q4_1", kind)
    if not made.exists():
        program = last_line([ROOT / "bench/llama.sh", "llama-quantize"], timeout_s=3600)
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(".part")
        run([program, "--allow-requantize", model, part, kind])
        part.rename(made)
    return made


def make(name, model):
    """The side of that name, ready to measure. Raises Failed with the reason if that fails."""
    if name in LLAMA:
        return Llama(LLAMA[name], model)
    if name in OPENVINO:
        return OpenVino(*OPENVINO[name], model)
    if name == MIXED_FILE:
        return Llama(MIXED_KIND, model)
    if name == OURS_MIXED:
        return Ours(None, quantized(model, MIXED_KIND))
    return Ours({OURS: None, OURS_EXACT: "exact"}[name], model)
