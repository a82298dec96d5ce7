"""How bench/queue compares sides: in turns, ratios within a round, medians of both."""
import importlib.machinery
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]


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
    assert row == ("what", "80,000", "2.00 times the better (1.00 to 2.00): RabbitMQ 45,000, "
                   "JetStream 10,000", "1.5 times, 60,000", "yes")


def test_a_ratio_alone_or_a_rate_alone_does_not_hold(tmp_path):
    assert bench(tmp_path, [50_000], [10_000], [9_000])[0][-1] == "NO"
    assert bench(tmp_path, [80_000], [70_000], [9_000])[0][-1] == "NO"
