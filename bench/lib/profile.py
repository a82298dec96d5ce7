"""Where a step of ours spends its time, by kernel, from the device's events."""
from .run import Failed
from .shapes import OURS, Shape

# What a step looks like at each end: wide and narrow decode, long decode, prompts.
SHAPES = [Shape(1, 128, 33), Shape(8, 512, 33), Shape(64, 128, 33), Shape(4, 7000, 129)]
QUICK = SHAPES[1:3]


# As users run it, where a layer may be one kernel; and with its parts launched one by one, which
# takes longer, but tells which part the time goes to.
WAYS = {"": ["--profile"], ", layers in parts": ["--profile", "--separate"]}


def measure(speeds, quick):
    """Shape and way -> engine_bench's object with kernels, or {"failure": why}."""
    out = {}
    for shape in QUICK if quick else SHAPES:
        for way, flags in WAYS.items():
            try:
                out[shape.name + way] = speeds.side(OURS).measure(shape, *flags).details
            except Failed as failure:
                out[shape.name + way] = {"failure": str(failure)}
    return out


def phases(details):
    """(phase, mean ms a step, launches a step, [(kernel, ms, launches)]), prompt and decode."""
    for phase in ("prompt", "decode"):
        kernels = [(k["kernel"], k["ms_per_step"], k["launches_per_step"])
                   for k in details.get(f"{phase}_kernels", [])]
        if kernels:
            yield (phase, details[f"{phase}_step_ms_mean"],
                   details[f"{phase}_launches_per_step"], kernels)
