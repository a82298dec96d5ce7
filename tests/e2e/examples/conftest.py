import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python_client"))
from client_place import BIN, PACKAGE, ROOT, Place, model_path, until  # noqa: E402

sys.path.insert(0, str(PACKAGE))
EXAMPLES = ROOT / "examples"


class Fleet(Place):
    """A broker and the real engine with the test model, for which the examples are run."""

    def __init__(self, folder):
        super().__init__(folder)
        self.env.update(MILLRACE_PROGRAMS=str(BIN))
        for name in ("MILLRACE_KEY", "MILLRACE_BROKER"):
            self.env.pop(name, None)

    def start_engine(self, *options):
        engine = subprocess.Popen(
            [BIN / "millrace-engine", "--model", model_path(), "--kv-memory", "256MiB",
             "--max-batch", "16", *options], env=self.env,
            stderr=open(self.folder / "engine.log", "ab"))
        self.processes.append(engine)
        return engine

    def start(self):
        import millrace
        self.start_broker()
        self.start_engine()
        with millrace.Client(self.clients) as client:
            until(lambda: client.status().engines, "engine")
        return self

    def high(self, stream):
        """How many results a stream has had."""
        import millrace
        with millrace.Client(self.clients) as client:
            try:
                return client.status(stream=stream).high
            except millrace.errors.NotFoundError:
                return 0

    def example(self, name, *words, **options):
        """Starts an example."""
        return self.python(EXAMPLES / name, *words, stderr=subprocess.PIPE, **options)

    def told(self, name, *words, **options):
        """Runs an example to its end, and gives what it printed."""
        program = self.example(name, *words, **options)
        told, wrong = program.communicate()
        assert program.returncode == 0, wrong
        return told


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """For tests that kill neither the broker nor the engine."""
    place = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        yield place.start()
    finally:
        place.close()


@pytest.fixture
def own_fleet(tmp_path):
    place = Fleet(tmp_path)
    try:
        yield place.start()
    finally:
        place.close()


@pytest.fixture
def client(fleet):
    import millrace
    with millrace.Client(fleet.clients) as client:
        yield client


@pytest.fixture(scope="session")
def examples():
    """The folder of the examples, whose modules can be imported."""
    sys.path.insert(0, str(EXAMPLES))
    return EXAMPLES
