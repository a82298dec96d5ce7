"""The rows and tables of `--only kv`, from the rounds that kv_sides.py measures."""
import dataclasses
import statistics

from . import limits
from .kv_sides import (F16, FEW, LOADS, LONG, MANY, PEERS, POLICIES, QUICK_POLICIES, SHORT,
                       SMALLEST, KvBench, gain, gains, generated, measure_beside, measure_ours,
                       try_peers)
from .phase import held, spread
from .plot import draw_panels

# The least speed with 16 rows of 7,000, times that of f16; for the smallest, the faster one counts.
LEAST_GAIN = {("q8",): 1.5, ("k8v4",): 1.7, SMALLEST: 2.0}
MOST_SHORT_PERCENT, MOST_PROMPT_PERCENT = 3, 5
RATIOS = {"llama.cpp": 4.0, "OpenVINO": 2.5}


def in_order(rounds):
    """The policies in their usual order; every second round ran them reversed."""
    return sorted(rounds.sides(), key=POLICIES.index)


def gain_rows(rounds):
    for policies, least in LEAST_GAIN.items():
        best = max(policies, key=lambda policy: gain(rounds, policy))
        ratios = gains(rounds, best)
        yield {"what": f"generated tok/s, {MANY} rows of {LONG:,}, KV {best}"
                       + (f" (the faster of {', '.join(policies)})" if policies[1:] else ""),
               "ours": spread(rounds.of(best, generated)).text(),
               "peer": spread(rounds.of(F16, generated)).text(), "peer_name": "ours, f16",
               "ratio": held(ratios, least), "required": f">= {least}", "mark": rounds.mark,
               "headline": f"{best} {statistics.median(ratios):.2f} times f16",
               "holds": rounds.verdict(statistics.median(ratios) >= least)}


def cost_row(what, rounds, most):
    """The row of the policy that adds most to f16's time."""
    costs = {policy: [(1 / ratio - 1) * 100 for ratio in gains(rounds, policy)]
             for policy in rounds.sides() if policy != F16}
    dearest = max(costs, key=lambda policy: statistics.median(costs[policy]))
    cost = spread(costs[dearest])
    return {"what": f"{what}, % longer than with f16, the dearest: {dearest}",
            "ours": cost.text(1), "required": f"<= {most} %", "mark": rounds.mark,
            "holds": rounds.verdict(cost.median <= most)}


def peers_row(beside, failures):
    """The row that compares the faster of the two smallest policies with each family's fastest
    side."""
    lacks = [family for family in RATIOS
             if not any(PEERS[side].family == family for side in beside.sides() if side in PEERS)]
    name = max(SMALLEST, key=lambda policy: statistics.median(beside.of(policy, generated)))
    said, fits = [], []
    for side in (side for side in beside.sides() if side in PEERS):
        least = RATIOS[PEERS[side].family]
        ratios = beside.ratios(name, side, generated)
        said.append(f"{side}, {spread(beside.of(side, generated)).text()}: {held(ratios, least)}")
        fits.append(statistics.median(ratios) >= least)
    holds = beside.verdict(all(fits))
    if holds and (lacks or failures or beside.failures):
        holds = None  # what is missing may be the fastest
    missing = list(dict.fromkeys([*lacks, *failures, *beside.failures]))
    return {"what": f"generated tok/s, {FEW} rows of {LONG:,}, KV {name} (the faster of "
                    f"{', '.join(SMALLEST)}{'; lacks ' + ', '.join(missing) if missing else ''})",
            "ours": spread(beside.of(name, generated)).text(), "ratio": "; ".join(said) or "-",
            "required": ", ".join(f">= {least:g} {family}" for family, least in RATIOS.items()),
            "mark": beside.mark, "holds": holds}


def rows_of(found, beside, failures):
    many, _, short = (found[load] for load in LOADS)
    return [*gain_rows(many),
            cost_row(f"decode step, {MANY} rows of {SHORT}", short, MOST_SHORT_PERCENT),
            cost_row(f"prompt of {LONG:,} tokens", found["prompt"], MOST_PROMPT_PERCENT),
            peers_row(beside, failures)]


def decode_table(found, bytes_per_token, weight_bytes):
    """A line for every load and policy. A step reads the weights and each row's keys and values
    once."""
    rows = []
    for (count, context, steps), rounds in list(found.items())[1:]:
        for policy in in_order(rounds):
            step = statistics.median(rounds.of(policy, lambda turn: turn.seconds))
            kv_bytes = count * (context + steps / 2) * bytes_per_token[policy]

            def share(read_bytes):
                return f"{100 * read_bytes / step / 1e9 / rounds.level:.0f}"
            rows.append([f"{count} x {context}", policy, f"{bytes_per_token[policy]:.0f}",
                         f"{step * 1e3:.2f}", spread(rounds.of(policy, generated)).text(),
                         spread(gains(rounds, policy)).text(2), share(kv_bytes),
                         share(kv_bytes + weight_bytes), f"{rounds.level:.1f}",
                         f"{len(rounds.used)} of {len(rounds.tried)}"])
    return ("Decode steps of ours by KV policy",
            ["rows x context", "KV", "bytes a token", "ms a step", "generated tokens/s",
             "times f16", "% of reads", "% of reads, weights too", "memory, GB/s", "rounds"], rows)


def prompt_table(rounds):
    return (f"Prompt of {LONG:,} tokens by KV policy, memory at {rounds.level:.1f} GB/s",
            ["KV", "tokens/s", "times f16"],
            [[policy, spread(rounds.of(policy, lambda turn: LONG / turn.seconds)).text(),
              spread(gains(rounds, policy)).text(2)] for policy in in_order(rounds)])


def peers_table(beside, once, failures):
    """The sides that took turns, with their spread; then each format's one run."""
    rows = [[side if side in PEERS else f"ours, KV {side}",
             spread(beside.of(side, generated)).text(), str(len(beside.of(side)))]
            for side in beside.sides()]
    rows += [[name, f"{speed.generate:.0f}", "1, to find the fastest"]
             for name, speed in once.items()]
    rows += [[name, "-", " ".join(why.split())[:200]]
             for name, why in {**failures, **beside.failures}.items()]
    return (f"{FEW} rows of {LONG:,} tokens beside the peers", ["side", "generated tokens/s",
                                                               "rounds"], rows)


def panels(found, beside):
    many = found[LOADS[0]]
    return [(f"{MANY} rows of {LONG:,}: times ours with KV f16",
             {policy: gain(many, policy) for policy in in_order(many)}),
            (f"{FEW} rows of {LONG:,}: generated tokens/s",
             {side if side in PEERS else f"ours, KV {side}":
              statistics.median(beside.of(side, generated)) for side in beside.sides()})]


def kv(context):
    """Makes the rows for bench/compare. Puts tables and a picture into the context."""
    policies = QUICK_POLICIES if context.quick else POLICIES
    with KvBench(context.model, policies) as bench, bench.guarded(context.guard):
        found = measure_ours(bench, context)
        speeds, failures = try_peers(context)
        beside = measure_beside(bench, context, speeds)
        tokens = {name: one["bytes_per_token"] for name, one in bench.policies.items()}
    once = {name: speed for name, (_, speed) in speeds.items()}
    weight_bytes = limits.work_of(context.model).weight_bytes
    context.pictures["kv"] = lambda title, path: draw_panels(panels(found, beside), title, path)

    def made():
        context.tables += [decode_table(found, tokens, weight_bytes),
                           prompt_table(found["prompt"]), peers_table(beside, once, failures)]
        rows = rows_of(found, beside, failures)
        rows[0]["runs"] = {str(what): rounds.record() for what, rounds in found.items()}
        rows[-1]["runs"] = {"rounds": beside.record(), "once": {
            name: dataclasses.asdict(speed) for name, speed in once.items()}}
        return rows
    return made
