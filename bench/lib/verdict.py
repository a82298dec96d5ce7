"""What must hold against the peers, and whether it does.

A ratio is taken within one run. `best` is the fastest of OpenVINO and llama.cpp in any format, and
of ik_llama.cpp, which enters by its measured ratio to llama.cpp's best format (ik_llama.json).
"""
import dataclasses
import json
import pathlib

from .shapes import (BUSY, EIGHT, FULL, LLAMA, LONG_FOUR, LONG_ONE, LONGER, ONE, OURS, PEERS,
                     SAME_FILE)

IK = json.loads(pathlib.Path(__file__).with_name("ik_llama.json").read_text())


@dataclasses.dataclass(frozen=True)
class Required:
    what: str
    shape: object
    speed: str         # "prompt" or "generate"
    same_file: float   # times llama.cpp on the same file
    best: float        # times the best of all


ROWS = [Required("prompt, 8 rows of 128", EIGHT, "prompt", 6.5, 1.05),
        Required("prompt, 8 rows of 512", LONGER, "prompt", 6.0, 1.1),
        Required("generated, 64 rows, context 256", FULL, "generate", 5.0, 1.6),
        Required("generated, 8 rows", EIGHT, "generate", 3.5, 1.5),
        Required("generated, 1 row", ONE, "generate", 1.8, 1.0),
        Required("generated, 4 rows of 7,000", LONG_FOUR, "generate", 3.5, 1.8),
        Required("prompt, 7,000 tokens", LONG_ONE, "prompt", 2.5, 0.8)]


def binding(rows, features):
    """The rows as they bind here: in full with AVX-512 VNNI, else 1.0 times the best in batches."""
    if "avx512_vnni" in features:
        return rows
    return [dataclasses.replace(row, same_file=0.0, best=1.0) for row in rows
            if row.shape.rows > 1]


def ik_ratio(shape, speed):
    """ik_llama.cpp's best format over llama.cpp's best, None where it was not measured."""
    for row in IK["rows"]:
        if (row["speed"], row["rows"]) == (speed, shape.rows) and shape.prompt == 128:
            return max(row["ik_llama.cpp"]) / max(row["llama.cpp"])
    return None


def best_peer(shape, speed, speeds):
    """(name, tokens/s) of the fastest; speeds: side -> Speed. None when there is none."""
    found = {name: getattr(speeds[name], speed) for name in PEERS if name in speeds}
    llama = [found[name] for name in LLAMA if name in found]
    ratio = ik_ratio(shape, speed)
    if ratio and llama:
        found["ik_llama.cpp by its ratio"] = ratio * max(llama)
    return max(found.items(), key=lambda item: item[1]) if found else None


def alike(shape, measured):
    """The measured shape that stands for `shape`: the same rows and prompt (--quick draws less)."""
    fits = [m for m in measured if (m.rows, m.prompt) == (shape.rows, shape.prompt)]
    return shape if shape in fits else fits[0] if fits else None


def judge(row, measured, failures):
    """One line of the verdict table. measured: shape -> side -> Speed; failures: shape, side pairs.

    holds: True; False; None where a side is missing that the row needs, or others had the machine.
    """
    out = {"what": row.what, "required_same_file": row.same_file, "required_best": row.best,
           "missing": [], "holds": None}
    shape = alike(row.shape, measured)
    speeds = measured[shape] if shape else {}
    out["missing"] = [side for side in (*row.shape.sides, OURS, SAME_FILE)
                      if side not in speeds and (shape, side) in failures]
    if OURS not in speeds:
        out["missing"] = sorted({*out["missing"], OURS})
        return out
    out["shape"] = shape.name
    out["ours"] = ours = getattr(speeds[OURS], row.speed)
    fits = []
    if SAME_FILE in speeds:
        out["same_file"] = getattr(speeds[SAME_FILE], row.speed)
        fits.append(ours >= row.same_file * out["same_file"])
    elif row.same_file:
        out["missing"] = sorted({*out["missing"], SAME_FILE})
    best = best_peer(shape, row.speed, speeds)
    if best:
        out["best_name"], out["best"] = best
        fits.append(ours >= row.best * best[1])
    used = [speeds[side] for side in (OURS, *PEERS) if side in speeds]
    if any(speed.foreign > BUSY for speed in used):
        out["missing"].append("a quiet machine")
    elif fits and not all(fits):
        out["holds"] = False
    elif fits and not out["missing"]:
        out["holds"] = True
    return out
