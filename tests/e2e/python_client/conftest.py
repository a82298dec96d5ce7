import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from client_place import PACKAGE, Place, until  # noqa: E402

sys.path.insert(0, str(PACKAGE))


@pytest.fixture
def bare_place(tmp_path, monkeypatch):
    """A place in which nothing runs yet; its endpoint is the default one."""
    place = Place(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", place.runtime)
    for name in ("MILLRACE_KEY", "MILLRACE_BROKER", "MILLRACE_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)
    yield place
    place.close()


@pytest.fixture
def place(bare_place):
    """A broker with a stub engine."""
    bare_place.start_broker()
    bare_place.start_engine()
    return bare_place


@pytest.fixture
def client(place):
    import millrace
    with millrace.Client() as client:
        until(lambda: client.status().engines, "engine")
        yield client
