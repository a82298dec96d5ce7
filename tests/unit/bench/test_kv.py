"""Tests the rows and tables of `bench/compare --only kv`. Nothing here is timed."""
import contextlib
import pathlib
import types

import pytest

from made import guard, rounds_of
from lib import checks, kv, kv_sides, limits, report, shapes, sides
from lib.kv_sides import BESIDE_PEERS, LOADS, Turn
from lib.run import Failed, Output
from lib.shapes import Shape

F16_MS = dict(zip(LOADS, (100.0, 40.0, 10.0)))
MANY, FEW, SHORT = LOADS
GAINS = {MANY: {"q8": 1.6, "k8v4": 1.75, "k6v4": 1.8, "k5v3": 1.9, "k4v3": 2.1},
         FEW: {"q8": 1.2, "k8v4": 1.3, "k6v4": 1.3, "k5v3": 1.6, "k4v3": 1.5},
         SHORT: {"q8": 0.98, "k8v4": 1.0, "k6v4": 1.1, "k5v3": 1.0, "k4v3": 1.2}}
PROMPT_S = {"f16": 7.0, "q8": 7.2, "k8v4": 7.1, "k6v4": 7.3, "k5v3": 7.0, "k4v3": 6.9}
LLAMA, OPENVINO = "llama.cpp Q4_0, KV f16, no flash attention", "OpenVINO Q4_1, KV u8"


def found(gains=GAINS, prompt_s=PROMPT_S, wanted=3, least=3):
    """Rounds of every load. In the second, all policies decode at half speed: no ratio changes."""
    out = {"prompt": rounds_of({p: [Turn(s)] * 3 for p, s in prompt_s.items()}, wanted,
                               least=least)}
    for load, f16_ms in F16_MS.items():
        steps = {policy: [f16_ms / 1e3 / times * slow for slow in (1, 2, 1)]
                 for policy, times in {"f16": 1.0, **gains[load]}.items()}
        out[load] = rounds_of({policy: [Turn(s, load[0] / s) for s in each]
                               for policy, each in steps.items()}, wanted, least=least)
    return out


def side(generate, foreign=0.0):
    return sides.Speed(1000.0, generate, 0.0, foreign, {})


def beside(llama=39.0, openvino=63.0, k5v3=160.0, k4v3=150.0, rounds=5, wanted=5, failures=(),
           foreign=0.0):
    """Rounds of the smallest policies and each family's fastest side."""
    values = {"k5v3": Turn(4 / k5v3, k5v3), "k4v3": Turn(4 / k4v3, k4v3),
              LLAMA: side(llama, foreign), OPENVINO: side(openvino, foreign)}
    return rounds_of({name: [value] * rounds for name, value in values.items()
                      if name not in dict(failures)}, wanted, failures=failures, least=3)


def holds(rows):
    return [row["holds"] for row in rows]


def test_rows_of_7000_tokens_have_five_rounds():
    assert min(kv_sides.ROUNDS, kv_sides.PROMPT_ROUNDS, kv_sides.PEER_ROUNDS) >= 5


def test_the_peers_are_of_every_format_that_may_be_the_fastest():
    for family in ("llama.cpp", "OpenVINO"):
        formats = {name.split()[1] for name in shapes.BOTH if name.startswith(family)}
        measured = {name.split()[1].rstrip(",") for name, peer in kv.PEERS.items()
                    if peer.family == family and "KV f16" in name}
        assert len(formats) > 1 and formats <= measured
    either = [name for name in kv.PEERS if name.startswith("llama.cpp") and name.endswith("f16")]
    assert either and all(f"{name}, no flash attention" in kv.PEERS for name in either)


def test_rows_hold_when_every_requirement_does():
    rows = kv.rows_of(found(), beside(), {})
    assert holds(rows) == [True] * 6
    assert [row["ratio"] for row in rows[:3]] == [
        f"held in 3 of 3 rounds, median {ratio}" for ratio in ("1.60", "1.75", "2.10")]
    assert "KV k4v3 (the faster of k5v3, k4v3)" in rows[2]["what"]
    assert (rows[2]["ours"], rows[2]["peer"]) == ("336 (168 to 336)", "160 (80 to 160)")
    assert rows[3]["ours"] == "2.0" and rows[3]["what"].endswith("the dearest: q8")
    assert rows[4]["ours"] == "4.3" and rows[4]["what"].endswith("the dearest: k6v4")
    assert rows[5]["ours"] == "160" and "KV k5v3" in rows[5]["what"]
    assert rows[5]["ratio"] == (f"{LLAMA}, 39: held in 5 of 5 rounds, median 4.10; "
                                f"{OPENVINO}, 63: held in 5 of 5 rounds, median 2.54")


@pytest.mark.parametrize("load, policy, gain, row", [
    (MANY, "q8", 1.49, 0), (MANY, "k8v4", 1.69, 1), (MANY, "k4v3", 1.99, 2),
    (SHORT, "k8v4", 0.97, 3)])
def test_a_policy_that_is_too_slow_fails_its_row(load, policy, gain, row):
    gains = {key: {**of, **({policy: gain} if key == load else {})} for key, of in GAINS.items()}
    rows = kv.rows_of(found(gains), beside(), {})
    assert holds(rows) == [i != row for i in range(6)]


def test_a_prompt_that_takes_too_long_fails_its_row():
    rows = kv.rows_of(found(prompt_s={**PROMPT_S, "k5v3": 7.36}), beside(), {})
    assert holds(rows) == [True, True, True, True, False, True]


@pytest.mark.parametrize("llama, openvino", [(40.1, 63), (39, 64.1)])
def test_the_row_beside_the_peers_needs_both_ratios(llama, openvino):
    assert kv.peers_row(beside(llama, openvino), {})["holds"] is False


def test_a_peer_that_is_missing_leaves_the_row_unproven_but_it_can_fail():
    gone = {"OpenVINO Q4_1, KV f16": "not installed"}
    row = kv.peers_row(beside(), gone)
    assert row["holds"] is None and "lacks OpenVINO Q4_1, KV f16" in row["what"]
    assert kv.peers_row(beside(llama=1000), gone)["holds"] is False
    row = kv.peers_row(beside(failures={LLAMA: "no", OPENVINO: "no"}), {})
    assert (row["holds"], row["ratio"]) == (None, "-")
    assert "lacks llama.cpp, OpenVINO" in row["what"]


def test_too_few_rounds_prove_nothing():
    rows = kv.rows_of(found(wanted=12), beside(), {})
    assert holds(rows) == [True] * 6  # if a verdict needs three, three of twelve suffice
    assert rows[0]["mark"] == "3 of 12 rounds count"
    assert holds(kv.rows_of(found(least=5), beside(), {})) == [None] * 5 + [True]
    assert kv.peers_row(beside(rounds=2), {})["holds"] is None
    row = kv.peers_row(beside(foreign=0.4), {})
    assert row["holds"] is None and "others had the cores in 5" in row["mark"]


def test_tables_say_what_a_step_reads():
    tokens = {policy: 23040.0 if policy == "f16" else 12240.0 for policy in kv_sides.POLICIES}
    _, head, rows = kv.decode_table(found(), tokens, weight_bytes=1e9)
    assert len(rows) == 3 * len(kv_sides.POLICIES) and all(len(row) == len(head) for row in rows)
    q8 = dict(zip(head, rows[1]))
    # 16 x 7,004 x 12,240 bytes in 62.5 ms are 21.9 GB/s, of the 40 GB/s that the probe measured
    assert (q8["KV"], q8["% of reads"], q8["memory, GB/s"]) == ("q8", "55", "40.0")
    assert (q8["% of reads, weights too"], q8["times f16"]) == ("95", "1.60")
    assert q8["generated tokens/s"] == "256 (128 to 256)" and q8["rounds"] == "3 of 3"
    once, failures = {LLAMA: side(38)}, {"OpenVINO Q4_1, KV f16": "not installed"}
    _, head, rows = kv.peers_table(beside(), once, failures)
    assert all(len(row) == len(head) for row in rows)
    assert rows[0] == ["ours, KV k5v3", "160", "5"]
    assert rows[-2:] == [[LLAMA, "38", "1, to find the fastest"],
                         ["OpenVINO Q4_1, KV f16", "-", "not installed"]]
    title, _, rows = kv.prompt_table(found()["prompt"])
    assert rows[1] == ["q8", "972", "0.97"] and "memory at 40.0 GB/s" in title
    assert [row[0] for row in rows] == list(kv_sides.POLICIES)


class Bench:
    """Replaces the kv_bench process, with every policy."""

    def __init__(self, _model, policies):
        self.policies = {name: {"bytes_per_token": 23040.0 if name == "f16" else 12240.0}
                         for name in policies}
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def guarded(self, _guard):
        return contextlib.nullcontext()

    def prompt(self, policy):
        self.asked.append(policy)
        return Turn(PROMPT_S[policy])

    def decode(self, policy, load):
        self.asked.append((policy, load))
        gains = {"f16": 1.0, **GAINS[FEW if load == BESIDE_PEERS else load]}
        step = F16_MS[FEW if load == BESIDE_PEERS else load] / 1e3 / gains[policy]
        return Turn(step, load[0] / step)


class Context(types.SimpleNamespace):
    def __init__(self, quick):
        super().__init__(model="m", quick=quick, guard=guard(), tables=[], pictures={})

    def rounds(self, usual, quick=1):
        return quick if self.quick else usual


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(limits, "work_of", lambda _: types.SimpleNamespace(weight_bytes=1e8))


def peer_that(measure):
    return types.SimpleNamespace(measure=measure)


def test_the_check_brings_rows_tables_and_a_picture(monkeypatch):
    log, benches = [], []

    def bench(model, policies):
        benches.append(Bench(model, policies))
        return benches[-1]

    def make(name):
        speed = {LLAMA: 39.0, OPENVINO: 63.0}.get(name, 30.0)
        return lambda _: peer_that(lambda _: log.append(name) or side(speed))
    peers = {name: kv_sides.Peer(peer.family, make(name)) for name, peer in kv.PEERS.items()}
    for module in (kv, kv_sides):
        monkeypatch.setattr(module, "PEERS", peers)
        monkeypatch.setattr(module, "KvBench", bench)
    context = Context(quick=False)
    rows = checks.measure("kv", context)()
    assert holds(rows) == [True] * 6 and {row["check"] for row in rows} == {"kv"}
    # Every format runs once, then the fastest of each family in five rounds with ours.
    assert log == [*peers, *[LLAMA, OPENVINO, OPENVINO, LLAMA] * 2, LLAMA, OPENVINO]
    asked = benches[0].asked
    assert asked[:12] == [*kv_sides.POLICIES, *reversed(kv_sides.POLICIES)]
    assert asked.count(("q8", MANY)) == 1 + 12 and asked.count(("k4v3", BESIDE_PEERS)) == 5
    text = report.check_section("kv", rows, context.tables).text("origin")
    assert "| q8 | 972 | 0.97 |" in text and f"| {LLAMA} | 39 | 5 |" in text
    assert "kv" in context.pictures
    assert kv.panels(found(), beside())[0][1]["q8"] == 1.6


def test_peers_that_fail_and_those_that_quick_leaves_out_are_named(monkeypatch):
    def broken(_model):
        raise Failed("no compiler")
    peers = {name: kv_sides.Peer(peer.family, broken, peer.quick)
             for name, peer in kv.PEERS.items()}
    for module in (kv, kv_sides):
        monkeypatch.setattr(module, "PEERS", peers)
    monkeypatch.setattr(kv, "KvBench", Bench)
    context = Context(quick=True)
    rows = checks.measure("kv", context)()
    assert holds(rows) == [None] * 3 + [True] + [None] * 2  # only 16 rows of 256 have enough rounds
    reasons = {row[0]: row[2] for row in context.tables[2][2] if row[1] == "-"}
    assert reasons == {name: "no compiler" if peer.quick else "not measured by --quick"
                       for name, peer in peers.items()}


PROGRAM = """#!/bin/sh
echo '{"policies": {"f16": {}}}'
while read -r line; do
  case $line in
    reads) echo '{"read_gbytes_per_s": 40}' ;;
    decode*) n=$((n + 1)); echo "{\\"step_s\\": 0.5, \\"drawn\\": [$((n / 3))]}" ;;
    prompt*) echo '{"seconds": 7}' ;;
    *) exit 3 ;;
  esac
done
"""


def test_the_program_is_asked_line_by_line(tmp_path, monkeypatch):
    program = tmp_path / "kv_bench"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    monkeypatch.setattr(kv_sides, "BIN", tmp_path)
    with kv_sides.KvBench("m", ["f16"]) as bench:
        assert bench.prompt("f16") == Turn(7)
        assert bench.decode("f16", FEW) == Turn(0.5, 8.0) == bench.decode("f16", FEW)
        with pytest.raises(Failed, match="f16 drew other tokens than in an earlier round"):
            bench.decode("f16", FEW)
        ours = guard(memory=30.0)
        with bench.guarded(ours):
            assert ours.in_turns(["f16"], bench.prompt, 1).tried[0].reads == [40, 40]
            assert ours.watch().live == bench.process.pid
        assert ours.memory.fastest == 40  # seen in the process, remembered in the run
        with pytest.raises(Failed, match="kv_bench ended with 3"):
            bench.ask("nonsense")
    assert bench.process.returncode is not None
    with contextlib.suppress(OSError):
        program.unlink()
    with pytest.raises(Failed, match="kv_bench: .*No such file"):
        kv_sides.KvBench("m", ["f16"])


def test_llama_copies_one_prompt_where_it_is_told(monkeypatch):
    commands = []

    def run(command):
        commands.append(command)
        line = ('{"pp": 7000, "tg": 64, "pl": 4, "speed_pp": 9.0, "speed_tg": 8.0, "speed": 1.0}')
        return Output(line, 1.0, 0.0)
    monkeypatch.setattr(sides, "run", run)
    monkeypatch.setattr(sides, "last_line", lambda *_, **__: "program")
    model = pathlib.Path("M.Q4_0.gguf")
    got = kv.PEERS["llama.cpp Q4_0, KV q8_0"].make(model).measure(kv_sides.PEERS_SHAPE)
    assert (got.prompt, got.generate) == (9.0, 8.0)
    kv.PEERS["llama.cpp Q4_0, KV f16, no flash attention"].make(model).measure(kv_sides.PEERS_SHAPE)
    sides.Llama("Q4_0", model).measure(kv_sides.PEERS_SHAPE)
    told = [command[command.index("-fa"):command.index("--output-format")] for command in commands]
    assert told == [["-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0", "-pps"],
                    ["-fa", "off", "-ctk", "f16", "-ctv", "f16", "-pps"],
                    ["-fa", "on", "-ctk", "f16", "-ctv", "f16"]]


def test_openvinos_prompts_end_when_all_rows_have_drawn():
    result = {"prompt_s": None, "total_s": 10.0, "step_ends_ms": [2000, 5000, 6000, 7000, 8000],
              "step_tokens": [1, 2, 2, 2, 1]}
    got = sides.of_times(Shape(2, 700, 5), result, 0)
    assert (got.prompt, got.generate) == (2 * 700 / 7.0, 2.0)

