"""What is required of the ratios to the peers, and whether it holds.

A ratio is taken within one round. A row holds if the median over its rounds is as required, and
says in how many rounds it held. `best` is the fastest, by the median over the rounds, of OpenVINO
and llama.cpp in any format and of ik_llama.cpp, whose speed is computed from its measured ratio to
llama.cpp's best format (ik_llama.json).
"""
import dataclasses
import json
import pathlib
import statistics

from .phase import Rounds, spread
from .shapes import EIGHT, FULL, LLAMA, LONG_FOUR, LONG_ONE, LONGER, ONE, OURS, PEERS, SAME_FILE

IK = json.loads(pathlib.Path(__file__).with_name("ik_llama.json").read_text())
IK_NAME = "ik_llama.cpp by its ratio"


@dataclasses.dataclass(frozen=True)
class Required:
    what: str
    shape: object
    speed: str         # "prompt" or "generate"
    same_file: float   # least ratio to llama.cpp on the same file
    best: float        # least ratio to the best peer
    same: str = SAME_FILE   # the peer on the same file
    peers: tuple = tuple(PEERS)  # of which the best counts


ROWS = [Required("prompt, 8 rows of 128", EIGHT, "prompt", 6.5, 1.05),
        Required("prompt, 8 rows of 512", LONGER, "prompt", 6.0, 1.1),
        Required("generated, 64 rows, context 256", FULL, "generate", 5.0, 1.6),
        Required("generated, 8 rows", EIGHT, "generate", 3.5, 1.5),
        Required("generated, 1 row", ONE, "generate", 1.8, 1.0),
        Required("generated, 4 rows of 7,000", LONG_FOUR, "generate", 3.5, 1.8),
        Required("prompt, 7,000 tokens", LONG_ONE, "prompt", 2.5, 0.8)]


def binding(rows, features):
    """The rows that are required on this machine: all with AVX-512 VNNI; without it the batches, at
    1.0 times the best peer."""
    if "avx512_vnni" in features:
        return rows
    return [dataclasses.replace(row, same_file=0.0, best=1.0) for row in rows
            if row.shape.rows > 1]


def ik_ratio(shape, speed):
    """ik_llama.cpp's best format over llama.cpp's best; None if it was not measured."""
    for row in IK["rows"]:
        if (row["speed"], row["rows"]) == (speed, shape.rows) and shape.prompt == 128:
            return max(row["ik_llama.cpp"]) / max(row["llama.cpp"])
    return None


@dataclasses.dataclass
class Peer:
    name: str
    speed: float   # tokens/s, median over the rounds
    ratios: list   # our speed over this one's, for each round


def peer_of(rounds, name, figure):
    ratios = rounds.ratios(OURS, name, figure)
    return Peer(name, statistics.median(rounds.of(name, figure)), ratios) if ratios else None


def best_peer(shape, speed, rounds, peers=PEERS):
    """The fastest Peer; None if none ran in a round with ours."""
    def figure(value):
        return getattr(value, speed)
    found = [peer for name in peers if (peer := peer_of(rounds, name, figure))]
    llamas = [peer for peer in found if peer.name in LLAMA]
    ratio = ik_ratio(shape, speed)
    if ratio and llamas:
        base = max(llamas, key=lambda peer: peer.speed)
        found.append(Peer(IK_NAME, ratio * base.speed, [one / ratio for one in base.ratios]))
    return max(found, key=lambda peer: peer.speed, default=None)


def alike(shape, measured):
    """The measured shape that stands for `shape`: it has the same rows and prompt (--quick draws
    less)."""
    fits = [m for m in measured if (m.rows, m.prompt) == (shape.rows, shape.prompt)]
    return shape if shape in fits else fits[0] if fits else None


def judge(row, measured):
    """One line of the verdict table. measured: shape -> Rounds.

    `holds` is True, False, or None if a side that the row needs is missing or too few rounds count.
    """
    out = {"what": row.what, "required_same_file": row.same_file, "required_best": row.best,
           "missing": [], "mark": "", "holds": None}
    shape = alike(row.shape, measured)
    rounds = measured[shape] if shape else Rounds([], 0)
    needed = {OURS, row.same} if row.same_file else {OURS}
    ran = rounds.sides()
    out["refused"] = sorted(rounds.refused)
    failed = {*rounds.failures} - rounds.refused  # a peer that refuses the file is not required
    out["missing"] = sorted({*needed, *failed} - {*ran})
    if OURS not in ran:
        return out
    out["shape"], out["mark"] = shape.name, rounds.mark
    out["ours"] = spread(rounds.of(OURS, lambda value: getattr(value, row.speed)))
    same = peer_of(rounds, row.same, lambda value: getattr(value, row.speed))
    beside = (("same_file", same, row.same_file),
              ("best", best_peer(shape, row.speed, rounds, row.peers), row.best))
    out |= {name: peer for name, peer, _ in beside if peer}
    fits = [statistics.median(peer.ratios) >= required for _, peer, required in beside if peer]
    if fits and not (out["missing"] and all(fits)):  # a missing side could only make the row fail
        out["holds"] = rounds.verdict(all(fits))
    return out
