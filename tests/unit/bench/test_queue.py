"""How bench/queue compares sides: in turns, ratios within a round, medians of both. What of the
cores a load takes, and what they would allow."""
import importlib.machinery
import importlib.util
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib.queue_brokers import Turn, costs_text, tree_seconds  # noqa: E402
from lib.run import TICKS_PER_S  # noqa: E402


def module():
    loader = importlib.machinery.SourceFileLoader("queue_bench", str(ROOT / "bench/queue"))
    spec = importlib.util.spec_from_loader("queue_bench", loader)
    loaded = importlib.util.module_from_spec(spec)
    loader.exec_module(loaded)
    return loaded


def bench(tmp_path, ours, rabbit, nats):
    queue, turns = module(), []
    made = queue.Bench(tmp_path, len(ours))
    sides = {"ours": iter(ours), queue.Rabbit: iter(rabbit), queue.Nats: iter(nats)}

    def measure(side):
        turns.append(side)
        return next(sides[side])
    made.peer_row("what", lambda: measure("ours"), lambda kind, *_: measure(kind), 1.5, 60_000)
    order = [0 if side == "ours" else 1 if side is queue.Rabbit else 2 for side in turns]
    return made.rows[0], order


def test_ratios_are_taken_within_a_round_and_to_the_better_peer(tmp_path):
    row, turns = bench(tmp_path, [80_000, 60_000, 90_000], [40_000, 50_000, 45_000],
                       [10_000, 60_000, 9_000])
    assert turns == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert row == ("what", "80,000", "2.00 times the better of RabbitMQ and JetStream "
                   "(1.00 to 2.00): RabbitMQ 45,000 (2.00 times), JetStream 10,000 (8.00 times)",
                   "1.5 times, 60,000", "yes")


def test_a_ratio_alone_or_a_rate_alone_does_not_hold(tmp_path):
    assert bench(tmp_path, [50_000], [10_000], [9_000])[0][-1] == "NO"
    assert bench(tmp_path, [80_000], [70_000], [9_000])[0][-1] == "NO"


def test_a_peer_that_is_only_shown_does_not_decide(tmp_path):
    made = module().Bench(tmp_path, 1)
    made.beside("what", {"ours": [30], "River": [10], "pgmq": [20], "table": [60]}, 1.5,
                shown=("table",))
    assert made.rows == [("what", "30", "1.50 times the better of River and pgmq (1.50 to 1.50): "
                          "River 10 (3.00 times), pgmq 20 (1.50 times), table 60 (0.50 times)",
                          "1.5 times", "yes")]


def test_a_side_is_told_with_the_processor_time_of_its_parts():
    def side(rate, brokers, database, loads):
        return [Turn(rate, {"brokers": brokers * 1e-6, "PostgreSQL": database * 1e-6,
                            "loads": loads * 1e-6})]
    sides = {"ours": side(30_000, 13, 25, 3), "River": side(50_000, 0, 18, 11),
             "table": side(100_000, 0, 9, 6)}
    assert costs_text(sides, 2, 1.5, {"River"}) == (
        "processor time of a job: ours brokers 13 µs, PostgreSQL 25 µs, loads 3 µs; River "
        "PostgreSQL 18 µs, loads 11 µs; table PostgreSQL 9 µs, loads 6 µs; 1.5 times leave 27 µs "
        "of 2 cores")


def brokers_row(tmp_path, monkeypatch, one, four):
    """The row of one broker and of four that have these rates; a job takes both 1 ms of the brokers
    and of PostgreSQL and none of the load, on two cores."""
    queue = module()
    monkeypatch.setattr(queue, "usable_cores", lambda: 2)
    made = queue.Bench(tmp_path, 1)
    costs = {"brokers": 1e-3, "PostgreSQL": 1e-3, "loads": 0}
    made.brokers_row("what", [Turn(one, costs)], [Turn(four, costs)])
    _, figure, text, _, holds = made.rows[0]
    return figure, text, holds


def test_brokers_that_the_cores_cannot_carry_are_unproven(tmp_path, monkeypatch):
    figure, text, holds = brokers_row(tmp_path, monkeypatch, 500, 900)
    assert (figure, holds) == ("900", "unproven")
    assert "1.80 times one broker (1.80 to 1.80); 2 cores allow 2.00 times" in text
    assert ("one: 500 jobs/s, brokers 1000 µs (25%), PostgreSQL 1000 µs (25%), loads 0 µs (0%)"
            in text)


def test_brokers_fail_where_the_cores_would_carry_them(tmp_path, monkeypatch):
    assert brokers_row(tmp_path, monkeypatch, 200, 400)[2] == "NO"
    assert brokers_row(tmp_path, monkeypatch, 200, 500)[2] == "yes"


def test_the_time_of_a_process_has_that_of_all_its_children(tmp_path):
    def stat(pid, parent, *ticks):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", parent, *[0] * 9, *ticks, 0, 0]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) name) {' '.join(map(str, fields))}")
    stat(10, 1, 1, 2, 40, 50)    # of its own, and of children that have ended
    stat(11, 10, 100, 200, 0, 0)
    stat(12, 11, 1000, 0, 0, 0)  # a child of its child
    stat(13, 1, 7, 7, 7, 7)      # somebody else
    assert tree_seconds(10, tmp_path) * TICKS_PER_S == 1 + 2 + 40 + 50 + 300 + 1000
