"""What bench/compare says of KV policies' speeds. Nothing here is timed."""
import pathlib
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import checks, kv, limits, report, shapes, sides  # noqa: E402
from lib.run import Failed, Output  # noqa: E402
from lib.shapes import Shape  # noqa: E402

F16_MS = {(16, 7000): 100.0, (4, 7000): 40.0, (16, 256): 10.0}
GAINS = {(16, 7000): {"q8": 1.6, "k8v4": 1.75, "k6v4": 1.8, "k5v3": 1.9, "k4v3": 2.1},
         (4, 7000): {"q8": 1.2, "k8v4": 1.3, "k6v4": 1.3, "k5v3": 1.6, "k4v3": 1.5},
         (16, 256): {"q8": 0.98, "k8v4": 1.0, "k6v4": 1.1, "k5v3": 1.0, "k4v3": 1.2}}
PROMPT_S = {"f16": 7.0, "q8": 7.2, "k8v4": 7.1, "k6v4": 7.3, "k5v3": 7.0, "k4v3": 6.9}


def measured(gains=GAINS, prompt_s=PROMPT_S, others=0.0):
    """kv_bench's object; a moment at half speed, of all policies, changes no ratio."""
    decode = []
    for (rows, context), f16_ms in F16_MS.items():
        step_s = {policy: [f16_ms / 1e3 / times * slow for slow in (1, 2, 1)]
                  for policy, times in {"f16": 1.0, **gains[rows, context]}.items()}
        decode.append({"rows": rows, "context": context, "steps": 8,
                       "step_s": dict(sorted(step_s.items()))})
    policies = {policy: {"bytes_per_token": 23040.0 if policy == "f16" else 12240.0}
                for policy in kv.POLICIES}
    return {"prompt": {"tokens": 7000, "seconds": {p: [s] for p, s in sorted(prompt_s.items())}},
            "decode": decode, "policies": policies, "others": others}


def side(generate, foreign=0.0):
    return sides.Speed(1000.0, generate, 0.0, foreign, {})


def all_peers(llama=39.0, openvino=63.0, foreign=0.0):
    """The best of each family is one of its sides; the others are slower."""
    slower = {"llama.cpp": llama - 9, "OpenVINO": openvino - 9}
    speeds = {name: side(slower[peer.family], foreign) for name, peer in kv.PEERS.items()}
    speeds["llama.cpp Q4_0, KV f16, no flash attention"] = side(llama, foreign)
    speeds["OpenVINO Q4_1, KV u8"] = side(openvino, foreign)
    return speeds


def holds(rows):
    return [row["holds"] for row in rows]


def test_the_peers_are_of_every_format_that_may_be_the_fastest():
    for family in ("llama.cpp", "OpenVINO"):
        formats = {name.split()[1] for name in shapes.BOTH if name.startswith(family)}
        measured = {name.split()[1].rstrip(",") for name, peer in kv.PEERS.items()
                    if peer.family == family and "KV f16" in name}
        assert len(formats) > 1 and formats <= measured
    either = [name for name in kv.PEERS if name.startswith("llama.cpp") and name.endswith("f16")]
    assert either and all(f"{name}, no flash attention" in kv.PEERS for name in either)


def test_rows_hold_when_every_requirement_does():
    rows = kv.rows_of(measured(), all_peers(), {})
    assert holds(rows) == [True] * 6
    assert [row["ratio"] for row in rows[:3]] == [1.6, 1.75, 2.1]
    assert "KV k4v3 (the faster of k5v3, k4v3)" in rows[2]["what"]
    assert (rows[2]["ours"], rows[2]["peer"]) == (336.0, 160.0)
    assert rows[3]["ours"] == 2.0 and rows[3]["what"].endswith("the dearest: q8")
    assert rows[4]["ours"] == 4.3 and rows[4]["what"].endswith("the dearest: k6v4")
    # 4 rows in 40 / 1.6 ms
    assert rows[5]["ours"] == 160.0 and "KV k5v3" in rows[5]["what"]
    assert rows[5]["ratio"] == ("4.10 of 39 (llama.cpp Q4_0, KV f16, no flash attention); "
                                "2.54 of 63 (OpenVINO Q4_1, KV u8)")


@pytest.mark.parametrize("load, policy, gain, row", [
    ((16, 7000), "q8", 1.49, 0), ((16, 7000), "k8v4", 1.69, 1), ((16, 7000), "k4v3", 1.99, 2),
    ((16, 256), "k8v4", 0.97, 3)])
def test_a_policy_that_is_too_slow_fails_its_row(load, policy, gain, row):
    gains = {key: {**of, **({policy: gain} if key == load else {})} for key, of in GAINS.items()}
    rows = kv.rows_of(measured(gains), all_peers(), {})
    assert holds(rows) == [i != row for i in range(6)]


def test_a_prompt_that_takes_too_long_fails_its_row():
    rows = kv.rows_of(measured(prompt_s={**PROMPT_S, "k5v3": 7.36}), all_peers(), {})
    assert holds(rows) == [True, True, True, True, False, True]


@pytest.mark.parametrize("llama, openvino", [(40.1, 63), (39, 64.1)])
def test_the_row_beside_the_peers_needs_both_ratios(llama, openvino):
    assert kv.peers_row(measured(), all_peers(llama, openvino), {})["holds"] is False


def test_a_peer_that_is_missing_leaves_the_row_unproven_but_it_can_fail():
    speeds = all_peers()
    del speeds["OpenVINO Q4_1, KV f16"]
    gone = {"OpenVINO Q4_1, KV f16": "not installed"}
    row = kv.peers_row(measured(), speeds, gone)
    assert row["holds"] is None and "lacks OpenVINO Q4_1, KV f16" in row["what"]
    speeds["llama.cpp Q4_0, KV f16"] = side(1000)
    assert kv.peers_row(measured(), speeds, gone)["holds"] is False
    row = kv.peers_row(measured(), {}, {name: "no" for name in kv.PEERS})
    assert (row["holds"], row["ratio"]) == (None, "-")


def test_a_busy_machine_proves_nothing():
    assert holds(kv.rows_of(measured(others=0.4), all_peers(), {})) == [None] * 6
    assert holds(kv.rows_of(measured(), all_peers(foreign=0.4), {})) == [True] * 5 + [None]


def test_tables_say_what_a_step_reads():
    title, head, rows = kv.decode_table(measured(), weight_bytes=1e9, read_gbytes=50.0)
    assert "50.0 GB/s" in title and len(rows) == 3 * len(kv.POLICIES)
    assert all(len(row) == len(head) for row in rows)
    q8 = dict(zip(head, rows[1]))
    # 16 x 7,004 x 12,240 bytes in 62.5 ms
    assert (q8["KV"], q8["KV read, GB/s"], q8["% of reads"]) == ("q8", "21.9", "44")
    assert (q8["% of reads, weights too"], q8["generated tokens/s"]) == ("76", "256")
    failures = {"OpenVINO Q4_1, KV u8": "not installed"}
    speeds = {name: s for name, s in all_peers().items() if name not in failures}
    _, head, rows = kv.peers_table(measured(), speeds, failures)
    assert all(len(row) == len(head) for row in rows)
    assert rows[0] == ["ours, KV f16", "1000", "100", "0%"]
    assert rows[-1] == ["OpenVINO Q4_1, KV u8", "-", "-", "not installed"]
    assert kv.prompt_table(measured())[2][1] == ["q8", "972", "0.97"]
    for table in (kv.decode_table(measured(), 1e9, 50.0), kv.prompt_table(measured())):
        at = table[1].index("KV")
        assert [row[at] for row in table[2]][:len(kv.POLICIES)] == list(kv.POLICIES)


class Context(types.SimpleNamespace):
    def __init__(self, quick):
        super().__init__(model="m", quick=quick, rounds=3, tables=[], pictures={})


@pytest.fixture
def machine(monkeypatch):
    """A machine where everything is measured at once; gives the commands that were run."""
    commands = []

    def run(command):
        commands.append(command)
        return Output("{}", 1.0, 0.0)
    peaks = iter([{"peak_read_gbytes_per_s": 40.0}, {"peak_read_gbytes_per_s": 50.0}])
    monkeypatch.setattr(kv, "run", run)
    monkeypatch.setattr(kv, "json_in", lambda _: measured())
    monkeypatch.setattr(limits, "measure", lambda only_peak: next(peaks))
    monkeypatch.setattr(limits, "work_of", lambda _: types.SimpleNamespace(weight_bytes=1e8))
    return commands


def peer_that(measure):
    return types.SimpleNamespace(measure=measure)


def test_the_check_brings_rows_tables_and_a_picture(machine, monkeypatch):
    peers = {name: kv.Peer(peer.family, lambda _, s=all_peers()[name]: peer_that(lambda _: s))
             for name, peer in kv.PEERS.items()}
    monkeypatch.setattr(kv, "PEERS", peers)
    context = Context(quick=False)
    rows = checks.rows_of("kv", context)
    assert holds(rows) == [True] * 6 and {row["check"] for row in rows} == {"kv"}
    assert machine[0][machine[0].index("--kv") + 1] == "f16,q8,k8v4,k6v4,k5v3,k4v3"
    assert "reads measured: 50.0 GB/s" in context.tables[0][0]
    here = {"processor": "P", "cores": 2, "features": [], "commit": "c", "date": "d"}
    text = report.page(here, None, [], {}, {}, None, rows, {}, context.tables)
    assert "| q8 | 972 | 0.97 |" in text and "| ours, KV f16 | 1000 | 100 | 0% |" in text
    panels = context.pictures["kv"]
    assert panels[0][1]["q8"] == 1.6 and panels[1][1]["OpenVINO Q4_1, KV u8"] == 63.0


def test_peers_that_fail_and_those_that_quick_leaves_out_are_named(machine, monkeypatch):
    def broken(_model):
        raise Failed("no compiler")
    peers = {name: kv.Peer(peer.family, broken, peer.quick) for name, peer in kv.PEERS.items()}
    monkeypatch.setattr(kv, "PEERS", peers)
    context = Context(quick=True)
    rows = checks.rows_of("kv", context)
    assert rows[-1]["holds"] is None
    reasons = {row[0]: row[3] for row in context.tables[2][2] if row[1] == "-"}
    assert reasons == {name: "no compiler" if peer.quick else "not measured by --quick"
                       for name, peer in peers.items()}


def test_llama_copies_one_prompt_where_it_is_told(monkeypatch):
    commands = []

    def run(command):
        commands.append(command)
        line = ('{"pp": 7000, "tg": 64, "pl": 4, "speed_pp": 9.0, "speed_tg": 8.0, "speed": 1.0}')
        return Output(line, 1.0, 0.0)
    monkeypatch.setattr(sides, "run", run)
    monkeypatch.setattr(sides, "last_line", lambda *_, **__: "program")
    model = pathlib.Path("M.Q4_0.gguf")
    got = kv.PEERS["llama.cpp Q4_0, KV q8_0"].make(model).measure(kv.PEERS_SHAPE)
    assert (got.prompt, got.generate) == (9.0, 8.0)
    kv.PEERS["llama.cpp Q4_0, KV f16, no flash attention"].make(model).measure(kv.PEERS_SHAPE)
    sides.Llama("Q4_0", model).measure(kv.PEERS_SHAPE)
    told = [command[command.index("-fa"):command.index("--output-format")] for command in commands]
    assert told == [["-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0", "-pps"],
                    ["-fa", "off", "-ctk", "f16", "-ctv", "f16", "-pps"],
                    ["-fa", "on", "-ctk", "f16", "-ctv", "f16"]]


def test_openvinos_prompts_end_when_all_rows_have_drawn():
    result = {"prompt_s": None, "total_s": 10.0, "step_ends_ms": [2000, 5000, 6000, 7000, 8000],
              "step_tokens": [1, 2, 2, 2, 1]}
    got = sides.of_times(Shape(2, 700, 5), result, 0)
    assert (got.prompt, got.generate) == (2 * 700 / 7.0, 2.0)

