import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
sys.path[:0] = [str(x) for x in (
    HERE, HERE.parent / "client", HERE.parent / "broker", TESTS / "chaos",
    TESTS.parent / "ops" / "metrics")]
