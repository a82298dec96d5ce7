"""Measures `--only kv`: prompts and decode steps by KV policy, and 4 rows compared with the peers.

One process (kv_bench) holds all our policies and runs what it is asked for, one policy after the
other, under the guard of phase.py. It computes the context once and copies it to the rows, which
share nothing. llama.cpp's benchmark does the same with `-pps`; OpenVINO computes a prompt for each
row. On every side generation speed is that of steps without prompts. The peers run once in every
format and with every KV type; the fastest side of each family then takes turns with ours.
"""
import contextlib
import dataclasses
import json
import statistics
import subprocess
import sys

from .phase import LEAST
from .run import BIN, Failed, Watch
from .shapes import Shape
from .sides import Llama, OpenVino

F16, SMALLEST = "f16", ("k5v3", "k4v3")
POLICIES = (F16, "q8", "k8v4", "k6v4", *SMALLEST)
QUICK_POLICIES = (F16, "q8", "k8v4", *SMALLEST)
MANY, FEW, LONG, SHORT = 16, 4, 7000, 256
# (rows, context, timed steps in a turn)
LOADS = ((MANY, LONG, 8), (FEW, LONG, 8), (MANY, SHORT, 24))
BESIDE_PEERS = (FEW, LONG, 24)
ROUNDS, PROMPT_ROUNDS, PEER_ROUNDS = 12, 5, 5
LONG_LEAST = 5  # rounds that a verdict on LONG needs
PEERS_SHAPE = Shape(FEW, LONG, 64)


@dataclasses.dataclass(frozen=True)
class Peer:
    family: str
    make: object          # model -> side
    quick: bool = False   # --quick measures it, too


def llama(kind, kv="f16", flash="on"):
    return lambda model: Llama(kind, model, kv=kv, flash=flash, copied=True)


def openvino(kind, kv):
    return lambda model: OpenVino(kind, kv, model, prompt_run=False)


# Every format that may be a family's fastest, and for llama.cpp both kinds of attention. Values in
# q8_0 need its flash attention.
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


@dataclasses.dataclass
class Turn:
    """The time and the speed of one policy in one turn."""
    seconds: float         # of the whole prompt, or of a decode step
    generate: float = 0.0  # tokens/s of all rows


class KvBench:
    """A kv_bench process with every policy loaded, asked line by line; a context manager."""

    def __init__(self, model, policies):
        command = [BIN / "kv_bench", "--model", model, "--kv", ",".join(policies), "--rows", MANY,
                   "--context", LONG, "--steps", max(steps for _, _, steps in LOADS)]
        self.drawn = {}
        try:
            self.process = subprocess.Popen([str(word) for word in command], text=True, bufsize=1,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise Failed(f"kv_bench: {error}") from None
        self.policies = self.answer()["policies"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(OSError):  # the process has ended
            self.process.stdin.close()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"kv_bench ended with {self.process.wait()}; its message is above")
        return json.loads(line)

    def ask(self, *words):
        try:
            print(*words, file=self.process.stdin, flush=True)
        except OSError:
            raise Failed(f"kv_bench ended with {self.process.wait()}") from None
        return self.answer()

    def guarded(self, guard):
        """Lets the guard read memory in the kv_bench process, whose CPU time counts as ours."""
        return guard.using(lambda: self.ask("reads")["read_gbytes_per_s"],
                           lambda: Watch(self.process.pid))

    def prompt(self, policy):
        return Turn(self.ask("prompt", policy)["seconds"])

    def decode(self, policy, load):
        answer = self.ask("decode", policy, *load)
        if self.drawn.setdefault((policy, load), answer["drawn"]) != answer["drawn"]:
            raise Failed(f"{policy} drew other tokens than in an earlier round: report it")
        return Turn(answer["step_s"], load[0] / answer["step_s"])


def measure_ours(bench, context):
    """The Rounds of all policies: {"prompt": Rounds, load: Rounds, ...}."""
    guard, policies = context.guard, sorted(bench.policies, key=POLICIES.index)
    found = {"prompt": guard.in_turns(policies, bench.prompt, context.rounds(PROMPT_ROUNDS),
                                      least=LONG_LEAST)}
    for load in LOADS:
        def decode(policy, load=load):
            return bench.decode(policy, load)
        for policy in policies:
            decode(policy)  # warms up
        found[load] = guard.in_turns(policies, decode, context.rounds(ROUNDS, quick=3),
                                     least=LONG_LEAST if load[1] == LONG else LEAST)
    for what, rounds in found.items():
        if rounds.failures:
            raise Failed(f"{what}: {rounds.failures}")
        print(f"KV policies, {what}: {len(rounds.counted)} of {len(rounds.tried)} rounds count",
              file=sys.stderr)
    return found


def try_peers(context):
    """Runs each peer once: name -> (side, Speed), and name -> why it has none."""
    speeds, failures = {}, {}
    for name, peer in PEERS.items():
        if context.quick and not peer.quick:
            failures[name] = "not measured by --quick"
            continue
        try:
            side = peer.make(context.model)
            speeds[name] = side, side.measure(PEERS_SHAPE)
            said = f"generated {speeds[name][1].generate:.0f} tokens/s"
        except Failed as failure:
            failures[name] = said = str(failure)
        print(f"{PEERS_SHAPE.name}, {name}: {said}", file=sys.stderr)
    return speeds, failures


def fastest(speeds):
    """family -> the name of its fastest side."""
    out = {}
    for name, (_, speed) in speeds.items():
        family = PEERS[name].family
        if family not in out or speed.generate > speeds[out[family]][1].generate:
            out[family] = name
    return out


def measure_beside(bench, context, speeds):
    """The Rounds of our smallest policies and each family's fastest side."""
    sides = {name: speeds[name][0] for name in fastest(speeds).values()}

    def measure(name):
        if name in sides:
            return sides[name].measure(PEERS_SHAPE)
        return bench.decode(name, BESIDE_PEERS)
    return context.guard.in_turns([*SMALLEST, *sides], measure, context.rounds(PEER_ROUNDS),
                                  least=LONG_LEAST)


def gains(rounds, policy):
    """f16's time over the policy's, for each round."""
    return rounds.ratios(F16, policy, lambda turn: turn.seconds)


def gain(rounds, policy):
    return statistics.median(gains(rounds, policy))


def generated(turn):
    return turn.generate
