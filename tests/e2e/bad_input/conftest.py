import os
import pathlib
import subprocess
import sys

import pytest
from patience import PATIENCE_S

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "client"), str(HERE.parent / "broker")]
from programs import Broker, Run, program, wait_until  # noqa: E402
from tiny_gguf import tiny_gguf  # noqa: E402


class RealRun(Run):
    """`millrace run` with the real engine on a tiny model."""

    def __init__(self, folder):
        super().__init__(folder)
        self.model = folder / "tiny.gguf"
        self.model.write_bytes(tiny_gguf())

    def command(self, *extra):
        return [program("millrace"), "run", "--model", str(self.model), "--input",
                str(self.input), "--output", str(self.output), *extra]


class RealBroker(Broker):
    def real_engine(self, *extra, content=None):
        model = self.folder / "tiny.gguf"
        model.write_bytes(content or tiny_gguf())
        with open(self.folder / "engine.log", "ab") as log:
            process = subprocess.Popen(
                [program("millrace-engine"), "--model", str(model), "--broker", self.engines,
                 *extra], stdout=log, stderr=log)
        self.processes.append(process)
        wait_until(lambda: "tiny" in self.millrace("status").stdout, "the engine's hello")
        return process

    def engine_log(self):
        return (self.folder / "engine.log").read_text()


@pytest.fixture(scope="session")
def real_run_in():
    """A function from a folder to a run in it, for runs that several tests share."""
    return RealRun


@pytest.fixture
def real_run(tmp_path):
    return RealRun(tmp_path)


@pytest.fixture
def stub_run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def real_broker(tmp_path_factory):
    one = RealBroker(tmp_path_factory.mktemp("b"))
    one.start()
    yield one
    one.stop()


@pytest.fixture
def call():
    def go(name, *words, text=None, **environment):
        return subprocess.run([program(name), *map(str, words)], text=True, capture_output=True,
                              input=text, timeout=PATIENCE_S, check=False,
                              env={**os.environ, **environment})
    return go
