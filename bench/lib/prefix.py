"""Measures the prefix cache: jobs with a common beginning, a hit in memory, a restart from disk."""
import statistics
import tempfile

from .phase import held, spread
from .run import BIN, Failed, json_in, run

SHARED, OWN, OUTPUT = 1500, 60, 16
JOBS, QUICK_JOBS = 256, 32
LEAST_GAIN, MOST_PLANNING_MS, LEAST_DISK_GAIN = 8, 1, 5


def bench(context, cache, jobs, output):
    done = run([BIN / "engine_bench", "--model", context.model, "--shared", SHARED,
                "--prompt", SHARED + OWN, "--jobs", jobs, "--output", output,
                "--kv-memory", "3GiB", "--prefix-cache", cache])
    return json_in(done.text)


def rounds_of(context, sides, wanted):
    """sides: name -> function that measures it."""
    rounds = context.guard.in_turns(list(sides), lambda side: sides[side](),
                                    context.rounds(wanted))
    if rounds.failures:
        raise Failed("; ".join(f"{side}: {why}" for side, why in rounds.failures.items()))
    return rounds


def throughput(context):
    jobs = QUICK_JOBS if context.quick else JOBS
    rounds = rounds_of(context, {cache: lambda cache=cache: bench(context, cache, jobs, OUTPUT)
                                 for cache in ("memory", "off")}, 3)

    def rate(one):
        return one["jobs_per_s"]

    def row():
        ratios = rounds.ratios("memory", "off", rate)
        return {"what": f"{jobs} jobs that share {SHARED} tokens, {OWN} of their own, {OUTPUT} "
                        "drawn: jobs/s (peer: prefix cache off)",
                "ours": spread(rounds.of("memory", rate)).text(2),
                "peer": spread(rounds.of("off", rate)).text(2),
                "peer_name": "ours, prefix cache off",
                "ratio": held(ratios, LEAST_GAIN), "required": f"ratio >= {LEAST_GAIN}",
                "mark": rounds.mark,
                "headline": f"prefix cache {statistics.median(ratios):.1f} times",
                "holds": rounds.verdict(statistics.median(ratios) >= LEAST_GAIN),
                "runs": rounds.record()}
    return row


def restart(context):
    with tempfile.TemporaryDirectory() as folder:
        bench(context, folder, 2, 1)  # pages are saved when the second job uses them
        return bench(context, folder, 1, 1)


def hit_and_restart(context):
    rounds = rounds_of(context, {"computed": lambda: bench(context, "memory", 1, 1),
                                 "disk": lambda: restart(context)}, 5)

    def rows():
        every = [one for side in rounds.sides() for one in rounds.of(side)]

        def first(one):
            return one["first_token_ms"]
        planning = spread([one["hit_planning_ms"] for one in every])
        hit = statistics.median(one["hit_first_token_ms"] for one in every)
        ratios = rounds.ratios("computed", "disk", first)
        tokens = min(one["disk_tokens"] for one in rounds.of("disk"))
        fits = statistics.median(ratios) >= LEAST_DISK_GAIN and tokens > SHARED - 16
        return [
            {"what": f"planning for a job whose {SHARED} tokens are known, ms (first token after "
                     f"{hit:.0f} ms)",
             "ours": planning.text(3), "required": f"< {MOST_PLANNING_MS}", "mark": rounds.mark,
             "holds": rounds.verdict(planning.median < MOST_PLANNING_MS), "runs": rounds.record()},
            {"what": f"first token of a {SHARED + OWN}-token prompt after a restart, {tokens} "
                     "tokens from disk, ms",
             "ours": spread(rounds.of("disk", first)).text(1),
             "peer": spread(rounds.of("computed", first)).text(1), "peer_name": "ours, computed",
             "ratio": held(ratios, LEAST_DISK_GAIN), "required": f"ratio >= {LEAST_DISK_GAIN}",
             "mark": rounds.mark, "headline": f"from disk {statistics.median(ratios):.1f} times",
             "holds": rounds.verdict(fits)}]
    return rows


def prefix(context):
    together, alone = throughput(context), hit_and_restart(context)
    return lambda: [together(), *alone()]
