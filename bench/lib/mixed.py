"""The model in Q4_K_M, a file with tensors of several types: our speed compared with our own Q4_1,
which it must nearly reach, and with llama.cpp on the same file. llama.cpp's quantizer makes the
file from the test model."""
import statistics

from .phase import held, spread
from .shapes import MIXED_EIGHT, MIXED_FILE, MIXED_FULL, MIXED_KIND, MIXED_ONE, OURS, OURS_MIXED

OF_OWN = 0.9  # least share of Q4_1's speed
# (what, shape, field of Speed)
ROWS = (("generated, 64 rows, context 256", MIXED_FULL, "generate"),
        ("generated, 8 rows", MIXED_EIGHT, "generate"),
        ("generated, 1 row", MIXED_ONE, "generate"),
        ("prompt, 8 rows of 128", MIXED_EIGHT, "prompt"))


def row_of(what, shape, speed, rounds):
    def figure(value):
        return getattr(value, speed)
    row = {"what": f"{MIXED_KIND}: {what}, tok/s", "ours": "failed",
           "required": f"our Q4_1 >= {OF_OWN}", "mark": rounds.mark, "holds": None}
    if rounds.failures:
        row["failure"] = f"{shape.name}: {rounds.failures}"
    if not rounds.of(OURS_MIXED):
        return row
    launches = rounds.of(OURS_MIXED)[-1].details.get("decode_launches_per_step", 0)
    row["what"] += f" ({launches:.0f} launches a decode step)"
    row["ours"] = spread(rounds.of(OURS_MIXED, figure)).text()
    said, headlines = [], []
    if ratios := rounds.ratios(OURS_MIXED, OURS, figure):
        own = spread(rounds.of(OURS, figure)).text()
        said.append(f"our Q4_1 ({own}): {held(ratios, OF_OWN)}")
        headlines.append(f"{statistics.median(ratios):.2f} times our Q4_1")
        row["holds"] = rounds.verdict(statistics.median(ratios) >= OF_OWN)
    if ratios := rounds.ratios(OURS_MIXED, MIXED_FILE, figure):
        row |= {"peer": spread(rounds.of(MIXED_FILE, figure)).text(),
                "peer_name": "llama.cpp, same file"}
        said.append(f"llama.cpp: {spread(ratios).text(2)}")
        headlines.append(f"{statistics.median(ratios):.2f} times llama.cpp")
    if headlines:
        row["headline"] = f"{MIXED_KIND}, {what}: {' and '.join(headlines)}"
    return {**row, "ratio": "; ".join(said) or "-", "runs": rounds.record()}


def mixed(context):
    """Makes the rows for bench/compare."""
    measured = [(*row, context.speeds.measure(row[1], context.rounds(row[1].rounds)))
                for row in ROWS]
    return lambda: [row_of(*each) for each in measured]
