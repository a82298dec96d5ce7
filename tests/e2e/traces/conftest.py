import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "http"))
from http_place import Place  # noqa: E402
from receiver import Receiver  # noqa: E402


@pytest.fixture
def make_receiver():
    made = []

    def make(status=200):
        made.append(Receiver(status))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def receiver(make_receiver):
    return make_receiver()


@pytest.fixture
def make_place(tmp_path_factory, monkeypatch):
    """Makes brokers with an HTTP face, whose spans do not wait for others."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    places = []

    def make(*options):
        places.append(Place(tmp_path_factory.mktemp("t"), "--metrics", "127.0.0.1:0",
                            *options).start_broker())
        return places[-1]
    yield make
    for one in places:
        one.close()
