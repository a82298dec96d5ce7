"""Settings of the process that runs the Python tests, and the option that divides them in two."""
import pathlib
import signal

# A shell that starts the tests in the background may make them ignore SIGINT. The programs that
# they start would inherit that, and would not end when a test sends the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = pathlib.Path(__file__).parent
# The tests of which the programs are counted by `ops/coverage`. The patterns are of tests that work
# on the engine instead, and would take minutes with counters.
COVERED = ("e2e/broker", "e2e/client", "e2e/metrics", "e2e/traces", "unit/schemas")
NOT_COVERED = ("test_convert*", "test_real_*")


def pytest_addoption(parser):
    parser.addoption("--covered", choices=("only", "not"),
                     help="runs only the tests that ops/coverage counts, or only the others")


def pytest_ignore_collect(collection_path, config):
    part = config.getoption("--covered")
    if part is None or not collection_path.match("test_*.py"):
        return None
    covered = (any((TESTS / folder) in collection_path.parents for folder in COVERED)
               and not any(collection_path.match(name) for name in NOT_COVERED))
    return True if covered != (part == "only") else None
