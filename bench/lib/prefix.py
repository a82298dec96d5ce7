"""What the prefix cache gives: jobs that begin alike, a hit in memory, a restart from disk."""
import statistics
import tempfile

from .run import BIN, json_in, run
from .shapes import BUSY

SHARED, OWN, OUTPUT = 1500, 60, 16
LEAST_GAIN, MOST_PLANNING_MS, LEAST_DISK_GAIN = 8, 1, 5


def bench(context, cache, jobs, output):
    done = run([BIN / "engine_bench", "--model", context.model, "--shared", SHARED,
                "--prompt", SHARED + OWN, "--jobs", jobs, "--output", output,
                "--kv-memory", "3GiB", "--prefix-cache", cache])
    return {**json_in(done.text), "others": round(done.foreign, 2)}


def judged(runs, holds):
    """Nothing is proven while others take the cores."""
    return None if any(one["others"] > BUSY for one in runs) else bool(holds)


def throughput(context):
    jobs = 32 if context.quick else 256
    pairs = [(bench(context, "memory", jobs, OUTPUT), bench(context, "off", jobs, OUTPUT))
             for _ in range(1 if context.quick else min(2, context.rounds))]
    runs = [one for pair in pairs for one in pair]
    ratio = statistics.median(off["total_s"] / on["total_s"] for on, off in pairs)
    with_cache, without = (statistics.median(one["jobs_per_s"] for one in side)
                           for side in zip(*pairs))
    return {"what": f"{jobs} jobs that share {SHARED} tokens, {OWN} of their own, {OUTPUT} drawn: "
                    "jobs/s (peer: prefix cache off)",
            "ours": round(with_cache, 2), "peer": round(without, 2),
            "peer_name": "ours, prefix cache off", "ratio": round(ratio, 2),
            "required": f"ratio >= {LEAST_GAIN}", "holds": judged(runs, ratio >= LEAST_GAIN),
            "runs": runs}


def hit_and_restart(context):
    runs = {"computed": [], "disk": []}
    for _ in range(max(3, context.rounds)):
        with tempfile.TemporaryDirectory() as folder:
            bench(context, folder, 2, 1)  # the second job's use has the pages saved
            runs["disk"].append(bench(context, folder, 1, 1))
        runs["computed"].append(bench(context, "memory", 1, 1))
    every = runs["computed"] + runs["disk"]
    planning = statistics.median(one["hit_planning_ms"] for one in every)
    computed, disk = (statistics.median(one["first_token_ms"] for one in runs[name])
                      for name in ("computed", "disk"))
    ratio = computed / disk
    tokens = min(one["disk_tokens"] for one in runs["disk"])
    return [
        {"what": f"planning for a job whose {SHARED} tokens are known, ms (first token after "
                 f"{statistics.median(one['hit_first_token_ms'] for one in every):.0f} ms)",
         "ours": round(planning, 3), "required": f"< {MOST_PLANNING_MS}",
         "holds": judged(every, planning < MOST_PLANNING_MS), "runs": every},
        {"what": f"first token of a {SHARED + OWN}-token prompt after a restart, {tokens} tokens "
                 "from disk, ms",
         "ours": round(disk, 1), "peer": round(computed, 1), "peer_name": "ours, computed",
         "ratio": round(ratio, 2), "required": f"ratio >= {LEAST_DISK_GAIN}",
         "holds": judged(every, ratio >= LEAST_DISK_GAIN and tokens > SHARED - 16), "runs": every}]


def prefix(context):
    return [throughput(context), *hit_and_restart(context)]
