"""Measures where our step spends its time, by kernel, from the device's events."""
from .shapes import OURS, Shape

# The extremes of a step: wide and narrow decode, long decode, prompts.
SHAPES = [Shape(1, 128, 33), Shape(8, 512, 33), Shape(64, 128, 33), Shape(4, 7000, 129)]
QUICK = SHAPES[1:3]


# A step as users run it, where a layer may be one kernel, and with the parts of a layer launched
# one by one, which takes longer but shows the time of each part.
WAYS = {"": ["--profile"], ", layers in parts": ["--profile", "--separate"]}


def measure(speeds, shapes):
    """Name of shape and way -> Rounds whose values are Speeds with engine_bench's object."""
    out = {}
    for shape in shapes:
        for way, flags in WAYS.items():
            def one(_side, shape=shape, flags=flags):
                return speeds.side(OURS).measure(shape, *flags)
            out[shape.name + way] = speeds.guard.in_turns([OURS], one, 1, least=1)
    return out


def details(rounds):
    """engine_bench's object with kernels, `memory_gbytes_per_s` at that time and the guard's
    `mark`, or {"failure": why}."""
    if not rounds.tried:
        return {"failure": rounds.failures[OURS]}
    return {**rounds.of(OURS)[-1].details, "memory_gbytes_per_s": rounds.level,
            "mark": rounds.mark}


def phases(details):
    """Yields (phase, mean ms a step, launches a step, [(kernel, ms, launches)]) for prompt and
    decode."""
    for phase in ("prompt", "decode"):
        kernels = [(k["kernel"], k["ms_per_step"], k["launches_per_step"])
                   for k in details.get(f"{phase}_kernels", [])]
        if kernels:
            yield (phase, details[f"{phase}_step_ms_mean"],
                   details[f"{phase}_launches_per_step"], kernels)
