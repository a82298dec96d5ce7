import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import Broker, Run, model_path  # noqa: E402


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def broker(tmp_path_factory):
    one = Broker(tmp_path_factory.mktemp("b"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def model():
    return model_path()
