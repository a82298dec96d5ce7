"""Made-up rounds and speeds for the tests of bench/compare."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench"))
from lib import phase, sides  # noqa: E402


def fast(prompt, generate, foreign=0.0, **details):
    return sides.Speed(prompt, generate, prompt + generate, foreign, details)


def rounds_of(values, wanted=None, memory=40.0, failures=(), least=1):
    """values: side -> what it measured, as a list with an item for each round, or a single item.
    least: the rounds that a verdict needs."""
    lists = {side: each if isinstance(each, list) else [each] for side, each in values.items()}
    number = max(map(len, lists.values()), default=0)
    tried = [phase.Round({side: each[i] for side, each in lists.items() if i < len(each)},
                         [memory, memory], 0.0) for i in range(number)]
    return phase.Rounds(tried, wanted or number, dict(failures), least, phase.Memory(memory))


class Quiet:
    """Replaces run.Watch: no other process uses the cores."""

    def foreign(self):
        return 0.0


def guard(memory=40.0):
    return phase.Guard(lambda: memory, Quiet)
