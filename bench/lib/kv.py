"""Speed by KV policy: prompts and decode steps of ours against our own f16, and 4 rows beside the
peers.

All policies of ours run in one process (kv_bench), alternating; a ratio is the median over the
rounds of what it was within one. Its context is computed once and copied, unshared, to the rows.
llama.cpp's benchmark does the same with `-pps`; OpenVINO computes a prompt of its own for each row.
Generation speed is that of steps without prompts on every side.
"""
import dataclasses
import statistics
import sys

from . import limits
from .run import BIN, Failed, json_in, run
from .shapes import BUSY, Shape
from .sides import Llama, OpenVino

F16, SMALLEST = "f16", ("k5v3", "k4v3")
POLICIES = (F16, "q8", "k8v4", "k6v4", *SMALLEST)
QUICK_POLICIES = (F16, "q8", "k8v4", *SMALLEST)
MANY, FEW, LONG, SHORT = 16, 4, 7000, 256
# Times f16 with 16 rows of 7,000; of the smallest, the faster.
LEAST_GAIN = {("q8",): 1.5, ("k8v4",): 1.7, SMALLEST: 2.0}
MOST_SHORT_PERCENT, MOST_PROMPT_PERCENT = 3, 5
LLAMA_RATIO, OPENVINO_RATIO = 4.0, 2.5
PEERS_SHAPE = Shape(FEW, LONG, 64)


@dataclasses.dataclass(frozen=True)
class Peer:
    family: str
    make: object          # of the model: a side
    quick: bool = False   # also measured by --quick


def llama(kind, kv="f16", flash="on"):
    return lambda model: Llama(kind, model, kv=kv, flash=flash, copied=True)


def openvino(kind, kv):
    return lambda model: OpenVino(kind, kv, model, prompt_run=False)


# Every format that may be a family's fastest, and for llama.cpp both kinds of attention. Its flash
# attention is needed for values in q8_0.
PEERS = {
    "llama.cpp Q4_0, KV f16": Peer("llama.cpp", llama("Q4_0"), True),
    "llama.cpp Q4_0, KV f16, no flash attention": Peer("llama.cpp", llama("Q4_0", flash="off")),
    "llama.cpp Q4_1, KV f16": Peer("llama.cpp", llama("Q4_1")),
    "llama.cpp Q4_1, KV f16, no flash attention": Peer("llama.cpp", llama("Q4_1", flash="off")),
    "llama.cpp Q4_0, KV q8_0": Peer("llama.cpp", llama("Q4_0", kv="q8_0")),
    "OpenVINO Q4_1, KV f16": Peer("OpenVINO", openvino("Q4_1", "f16"), True),
    "OpenVINO Q4_0, KV f16": Peer("OpenVINO", openvino("Q4_0", "f16")),
    "OpenVINO Q4_1, KV u8": Peer("OpenVINO", openvino("Q4_1", "u8")),
    "OpenVINO Q4_0, KV u8": Peer("OpenVINO", openvino("Q4_0", "u8")),
}


def ours(context):
    """kv_bench's object, with the share of the cores that others had meanwhile."""
    policies = QUICK_POLICIES if context.quick else POLICIES
    done = run([BIN / "kv_bench", "--model", context.model, "--math", "fast", "--kv",
                ",".join(policies), "--rows", MANY, "--few", FEW, "--context", LONG, "--short",
                SHORT, "--rounds", 3 if context.quick else 4 * context.rounds, "--prompt-rounds",
                1 if context.quick else min(2, context.rounds)])
    return {**json_in(done.text), "others": done.foreign}


def peers(context):
    """side -> Speed, and side -> why it failed."""
    speeds, failures = {}, {}
    for name, peer in PEERS.items():
        if context.quick and not peer.quick:
            failures[name] = "not measured by --quick"
            continue
        try:
            speeds[name] = peer.make(context.model).measure(PEERS_SHAPE)
            said = f"generated {speeds[name].generate:.0f} tokens/s"
        except Failed as failure:
            failures[name] = said = str(failure)
        print(f"{PEERS_SHAPE.name}, {name}: {said}", file=sys.stderr)
    return speeds, failures


def in_order(by_policy):
    """(policy, value) as POLICIES has them; the program's object sorts its names."""
    return [(policy, by_policy[policy]) for policy in POLICIES if policy in by_policy]


def load_of(measured, rows, tokens):
    return next(load for load in measured["decode"]
                if (load["rows"], load["context"]) == (rows, tokens))


def gain(seconds, policy):
    """Median over the rounds of f16's time over the policy's. seconds: policy -> by round."""
    return statistics.median(a / b for a, b in zip(seconds[F16], seconds[policy]))


def speed(load, policy):
    """Generated tokens/s of all rows."""
    return load["rows"] / statistics.median(load["step_s"][policy])


def judged(others, holds):
    """Nothing is proven while others take the cores."""
    return None if max(others) > BUSY else bool(holds)


def gain_rows(measured):
    load = load_of(measured, MANY, LONG)
    for policies, least in LEAST_GAIN.items():
        best = max(policies, key=lambda policy: gain(load["step_s"], policy))
        ratio = gain(load["step_s"], best)
        yield {"what": f"generated tok/s, {MANY} rows of {LONG:,}, KV {best}"
                       + (f" (the faster of {', '.join(policies)})" if policies[1:] else ""),
               "ours": round(speed(load, best), 1), "peer": round(speed(load, F16), 1),
               "peer_name": "ours, f16", "ratio": round(ratio, 2), "required": f">= {least}",
               "holds": judged([measured["others"]], ratio >= least)}


def cost_row(what, seconds, most, others):
    """The policy that adds most to f16's time."""
    cost = {policy: (1 / gain(seconds, policy) - 1) * 100 for policy in seconds if policy != F16}
    dearest = max(cost, key=cost.get)
    return {"what": f"{what}, % longer than with f16, the dearest: {dearest}",
            "ours": round(cost[dearest], 1), "required": f"<= {most} %",
            "holds": judged([others], cost[dearest] <= most),
            "runs": [{policy: round(value, 2) for policy, value in cost.items()}]}


def peers_row(measured, speeds, failures):
    """The faster of the two smallest policies beside each family's fastest side."""
    load = load_of(measured, FEW, LONG)
    name = max(SMALLEST, key=lambda policy: speed(load, policy))
    mine, ratios, fits = speed(load, name), [], []
    for family, least in (("llama.cpp", LLAMA_RATIO), ("OpenVINO", OPENVINO_RATIO)):
        found = {side: speeds[side].generate for side in speeds if PEERS[side].family == family}
        if found:
            best = max(found, key=found.get)
            ratios.append(f"{mine / found[best]:.2f} of {found[best]:.0f} ({best})")
            fits.append(mine >= least * found[best])
    others = [measured["others"], *(side.foreign for side in speeds.values())]
    holds = judged(others, all(fits))
    if holds and failures:
        holds = None  # what is missing may be the fastest
    lacks = f"; lacks {', '.join(failures)}" if failures else ""
    return {"what": f"generated tok/s, {FEW} rows of {LONG:,}, KV {name} (the faster of "
                    f"{', '.join(SMALLEST)}{lacks})",
            "ours": round(mine, 1), "ratio": "; ".join(ratios) or "-",
            "required": f">= {LLAMA_RATIO:g} llama.cpp, >= {OPENVINO_RATIO:g} OpenVINO",
            "holds": holds}


def rows_of(measured, speeds, failures):
    short = load_of(measured, MANY, SHORT)
    return [*gain_rows(measured),
            cost_row(f"decode step, {MANY} rows of {SHORT}", short["step_s"], MOST_SHORT_PERCENT,
                     measured["others"]),
            cost_row(f"prompt of {LONG:,} tokens", measured["prompt"]["seconds"],
                     MOST_PROMPT_PERCENT, measured["others"]),
            peers_row(measured, speeds, failures)]


def decode_table(measured, weight_bytes, read_gbytes):
    """Of every load and policy. A step reads the weights and each row's keys and values once."""
    rows = []
    for load in measured["decode"]:
        for policy, seconds in in_order(load["step_s"]):
            step = statistics.median(seconds)
            each = measured["policies"][policy]["bytes_per_token"]
            kv = load["rows"] * (load["context"] + load["steps"] / 2) * each
            rows.append([f"{load['rows']} x {load['context']}", policy, f"{each:.0f}",
                         f"{step * 1e3:.2f}", f"{load['rows'] / step:.0f}",
                         f"{gain(load['step_s'], policy):.2f}", f"{kv / step / 1e9:.1f}",
                         f"{100 * kv / step / 1e9 / read_gbytes:.0f}",
                         f"{100 * (kv + weight_bytes) / step / 1e9 / read_gbytes:.0f}"])
    return (f"Decode steps of ours by KV policy; reads measured: {read_gbytes:.1f} GB/s",
            ["rows x context", "KV", "bytes a token", "ms a step", "generated tokens/s",
             "times f16", "KV read, GB/s", "% of reads", "% of reads, weights too"], rows)


def prompt_table(measured):
    seconds, tokens = measured["prompt"]["seconds"], measured["prompt"]["tokens"]
    return (f"Prompt of {tokens:,} tokens by KV policy", ["KV", "tokens/s", "times f16"],
            [[policy, f"{tokens / statistics.median(each):.0f}", f"{gain(seconds, policy):.2f}"]
             for policy, each in in_order(seconds)])


def peers_table(measured, speeds, failures):
    load = load_of(measured, FEW, LONG)
    tokens = measured["prompt"]["tokens"]
    sides = [(f"ours, KV {policy}", tokens / statistics.median(seconds), speed(load, policy),
              measured["others"]) for policy, seconds in in_order(measured["prompt"]["seconds"])]
    sides += [(name, side.prompt, side.generate, side.foreign) for name, side in speeds.items()]
    rows = [[name, f"{prompt:.0f}", f"{generated:.0f}",
             f"{others:.0%}" + (" BUSY" if others > BUSY else "")]
            for name, prompt, generated, others in sides]
    rows += [[name, "-", "-", why] for name, why in failures.items()]
    return (f"{FEW} rows of {LONG:,} tokens beside the peers, tokens/s",
            ["side", "prompt", "generated", "others"], rows)


def panels(measured, speeds):
    many, few = load_of(measured, MANY, LONG), load_of(measured, FEW, LONG)
    beside = {f"ours, KV {policy}": speed(few, policy) for policy, _ in in_order(few["step_s"])}
    beside |= {name: side.generate for name, side in speeds.items()}
    return [(f"{MANY} rows of {LONG:,}: times ours with KV f16",
             {policy: gain(many["step_s"], policy) for policy, _ in in_order(many["step_s"])}),
            (f"{FEW} rows of {LONG:,}: generated tokens/s", beside)]


def kv(context):
    """The rows of bench/compare; tables and a picture go into the context."""
    before = limits.measure(only_peak=True)
    measured = ours(context)
    after = limits.measure(only_peak=True)  # a busy moment shows less
    speeds, failures = peers(context)
    reads = max(peak["peak_read_gbytes_per_s"] for peak in (before, after))
    context.tables += [
        decode_table(measured, limits.work_of(context.model).weight_bytes, reads),
        prompt_table(measured), peers_table(measured, speeds, failures)]
    context.pictures["kv"] = panels(measured, speeds)
    rows = rows_of(measured, speeds, failures)
    rows[0]["runs"] = [{**measured, "read_gbytes_per_s": reads}]
    rows[-1]["runs"] = [{name: dataclasses.asdict(side) for name, side in speeds.items()}]
    return rows
