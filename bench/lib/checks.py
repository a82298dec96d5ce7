"""The measures that give rows with a figure of ours and what is required of it.

A check of rows that read memory measures, and returns a function that makes its rows: which rounds
count can still change when the run sees a faster memory. The others return their rows.

A row holds `what`, `ours`, `required`, `holds`, mostly a peer's figure of the same run, and `runs`.
`mark` says why rounds do not count (phase.py); `headline` goes into the history. A measure that
fails gives a row with `failure`.
"""
import json
import statistics
import sys
import tempfile
import time

from . import limits
from .busy import busy
from .families import KLD_RATIO, families
from .job import job
from .kv import kv
from .mixed import mixed
from .phase import held, spread
from .policies import policies
from .prefix import prefix
from .queue_servers import Broker, sync_ms
from .run import BIN, ROOT, Failed, json_in, last_line, run, usable_cores
from .shapes import BUSY, EXACT, OURS, OURS_EXACT, SAME_FILE

WIDE_PERCENT = 68
SAMPLER_PERCENT = 3


def throughput(context):
    """64 jobs of 128 prompt and 128 output tokens in exact math, and llama.cpp on the same file."""
    rounds = context.speeds.measure(EXACT, context.rounds(EXACT.rounds))
    for side in (OURS_EXACT, SAME_FILE):
        if not rounds.of(side):
            raise Failed(f"{side}: {rounds.failures[side]}")

    def total(speed):
        return speed.total

    def row():
        ratios = rounds.ratios(OURS_EXACT, SAME_FILE, total)
        return {"what": f"{EXACT.name}, exact, total tok/s", "required": "ratio >= 0.5",
                "ours": spread(rounds.of(OURS_EXACT, total)).text(),
                "peer": spread(rounds.of(SAME_FILE, total)).text(),
                "peer_name": "llama.cpp, same file", "ratio": held(ratios, 0.5),
                "mark": rounds.mark,
                "headline": f"exact {statistics.median(ratios):.2f} times llama.cpp",
                "holds": rounds.verdict(statistics.median(ratios) >= 0.5), "runs": rounds.record()}
    return row


def start(context):
    """Whole processes on both sides: start, load, a 16-token prompt, one token, exit."""
    program = last_line([ROOT / "bench/llama.sh"], timeout_s=3600)
    commands = {OURS: [BIN / "engine_bench", "--model", context.model, "--first-token"],
                SAME_FILE: [program, "-m", context.model, "-c", 256, "-npp", 16, "-ntg", 1, "-npl",
                            1, "-t", usable_cores(), "--output-format", "jsonl"]}

    def seconds(side):
        begin = time.monotonic()
        run(commands[side])
        return time.monotonic() - begin
    for side in commands:
        seconds(side)  # warms the program cache and the file's pages
    rounds = context.guard.in_turns(list(commands), seconds, context.rounds(5))
    if rounds.failures:
        raise Failed("; ".join(f"{side}: {why}" for side, why in rounds.failures.items()))

    def row():
        mine = spread(rounds.of(OURS))
        return {"what": "process start to first token and exit, warm cache, s",
                "ours": mine.text(2), "peer": spread(rounds.of(SAME_FILE)).text(2),
                "peer_name": "llama.cpp, the same",
                "ratio": spread(rounds.ratios(OURS, SAME_FILE)).text(2), "required": "< 1.5 s",
                "mark": rounds.mark, "holds": rounds.verdict(mine.median < 1.5),
                "headline": f"first token after {mine.median:.2f} s",
                "runs": rounds.record()}
    return row


def submits(_context):
    with tempfile.TemporaryDirectory(prefix="submits-", dir=BIN.parent) as folder:
        sync = sync_ms(folder)
        broker = Broker(folder).start()
        ours = broker.load("submit", "--jobs", 200_000)
        broker.stop()
    rate = ours["per_second"]
    return {"what": f"durable submits of 100 jobs, jobs/s (p99 {ours['p99_ms']:.1f} ms with 2,000 "
                    "in flight)",
            "ours": round(rate), "peer": round(sync, 2),
            "peer_name": "the disk: ms to sync 4 KiB",
            "required": ">= 60000", "holds": rate >= 60_000,
            "headline": f"{rate:.0f} durable submits/s", "runs": [ours]}


def memory(_context):
    ours = json_in(run([ROOT / "bench/memory"]).text)
    holds = ours["run_peak_mb"] < 400 and ours["written"] == ours["lines"]
    return {"what": "run over 200,000 lines, peak resident MB", "ours": ours["run_peak_mb"],
            "required": "< 400", "holds": holds,
            "headline": f"200,000 lines in {ours['run_peak_mb']} MB", "runs": [ours]}


def kernels(context):
    """The slowest integer matrix kernel in wide shapes, as a share of the measured dot-product
    peak."""
    context.kernels = limits.measure(only_peak=False)
    wide = limits.wide_products(context.kernels)
    if not wide:
        raise Failed("kernel_bench measured no integer product of 128 columns or more")
    name, least = min(wide, key=lambda item: item[1])
    others = context.kernels["others"]
    # A kernel beyond the peak means that others used the cores while the peak was measured.
    busy = others > BUSY or max(percent for _, percent in wide) > 100
    return {"what": f"integer products of 128 columns or more, % of {peak_text(context.kernels)}, "
                    f"the slowest: {name} (others {others:.0%})",
            "ours": least, "required": f">= {WIDE_PERCENT}",
            "holds": None if busy else least >= WIDE_PERCENT,
            "headline": f"wide products at {least:.0f} % of the dot-product peak",
            "runs": [{"kernels": context.kernels["kernels"]}]}


def sampler_holds(judged):
    """True or False; None if the median is not known well enough."""
    if all(one["cost_percent_high"] <= SAMPLER_PERCENT for one in judged):
        return True
    return False if any(one["cost_percent_low"] > SAMPLER_PERCENT for one in judged) else None


def sampler_text(one):
    return f"{one['cost_percent']:.1f} ({one['cost_percent_low']:.1f} to " \
           f"{one['cost_percent_high']:.1f})"


def sampler(context):
    """What all penalties (DRY and no-repeat n-grams among them) or top-5 logprobs on each of 32
    rows add to their step, whichever is more. The program takes turns of its own, each much shorter
    than a phase of the memory, so the whole program is one round of the guard."""
    command = [BIN / "sampler_bench", "--model", context.model, "--kv-memory", "1GiB", "--rounds",
               max(12, 4 * context.rounds(3))]
    rounds = context.guard.in_turns(["sampler"], lambda _: json_in(run(command).text), 1, least=1)
    if not rounds.tried:
        raise Failed(rounds.failures["sampler"])

    def row():
        ours = rounds.of("sampler")[-1]
        judged = [ours[name] for name in ("all_penalties", "top5_logprobs")]
        return {"what": f"decode step of 32 rows ({ours['plain']['step_ms']:.2f} ms): % longer "
                        f"with all penalties {sampler_text(judged[0])}, with top-5 logprobs "
                        f"{sampler_text(judged[1])}; penalties without DRY and n-grams "
                        f"{sampler_text(ours['penalties'])}; medians of {ours['rounds']} "
                        f"alternating turns of {ours['steps']} steps, their mean over "
                        f"{ours['arrangements']} arrangements of the engines and its 95 % bounds",
                "ours": round(max(one["cost_percent"] for one in judged), 2),
                "required": f"<= {SAMPLER_PERCENT} %", "mark": rounds.mark,
                "headline": "penalties and logprobs add "
                            f"{max(one['cost_percent'] for one in judged):.1f} %",
                "holds": sampler_holds(judged) if rounds.proven else None, "runs": rounds.record()}
    return row


def peak_text(peak):
    return f"{peak['peak_dot_gops']:.0f} Gop/s ({peak['peak_dot_instruction']})"


def fidelity(context):
    """The mean KL divergence of the default math mode, and of llama.cpp, from the float64
    reference."""
    sys.path.insert(0, str(ROOT / "bench/fidelity"))
    import fidelity as measured  # a program of its own
    mode = "fast" if "fast" in measured.MATH_MODES else measured.MATH_MODES[0]
    try:
        ours, peer = (measured.measure(context.model, side) for side in (mode, "llama.cpp"))
    except (SystemExit, OSError) as error:
        raise Failed(str(error)) from None
    ratio = ours["mean_kld"] / peer["mean_kld"]
    return {"what": f"mean KLD against float64, math {mode} (top-1 {ours['top1']:.2%}, llama.cpp "
                    f"{peer['top1']:.2%})",
            "ours": float(f"{ours['mean_kld']:.2g}"), "peer": float(f"{peer['mean_kld']:.2g}"),
            "peer_name": "llama.cpp, same file and text", "ratio": float(f"{ratio:.2g}"),
            "required": f"ratio <= {KLD_RATIO}", "holds": ratio <= KLD_RATIO,
            "headline": f"KLD {ratio:.2f} of llama.cpp's",
            "runs": [json.loads(json.dumps(x)) for x in (ours, peer)]}


CHECKS = {check.__name__: check
          for check in (throughput, mixed, busy, start, submits, memory, kernels, sampler, prefix,
                        fidelity, families, policies, job, kv)}


def failed(name, failure):
    return [{"check": name, "what": name, "ours": "failed", "required": "-", "holds": None,
             "failure": str(failure)}]


def measure(name, context):
    """Runs a check. Returns a function that makes its rows; a failed check has one row that says
    why."""
    try:
        found = CHECKS[name](context)
    except Failed as failure:
        rows = failed(name, failure)
        return lambda: rows

    def made():
        try:
            rows = found() if callable(found) else found
        except Failed as failure:
            return failed(name, failure)
        return [{"check": name, **row} for row in (rows if isinstance(rows, list) else [rows])]
    return made
