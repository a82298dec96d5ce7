import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "client"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from scraped import ROOT, Prometheus, Scraped  # noqa: E402

sys.path.insert(0, str(ROOT / "client/python/src"))


@pytest.fixture
def place(tmp_path_factory):
    """A broker that shows its metrics; engines may follow."""
    one = Scraped(tmp_path_factory.mktemp("b"))
    one.start_scraped()
    yield one
    one.stop()


@pytest.fixture
def prometheus(tmp_path):
    one = Prometheus(tmp_path)
    yield one
    one.stop()
