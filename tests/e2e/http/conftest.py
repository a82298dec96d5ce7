import pathlib
import sys

import openai
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from http_keys import Keys  # noqa: E402
from http_place import Place, places_of  # noqa: E402


@pytest.fixture
def make_place(tmp_path_factory):
    """Makes brokers with an HTTP face, which end with the test."""
    yield from places_of(Place, tmp_path_factory, "h")


@pytest.fixture
def place(make_place):
    one = make_place()
    one.start_engine("--text", "one two three four", "--job-steps", "4")
    return one


@pytest.fixture
def client(place):
    with openai.OpenAI(base_url=place.url + "/v1", api_key="none", max_retries=0) as one:
        yield one


@pytest.fixture
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("k")
    keys = Keys(folder)
    keys.new("engine", "*", "work")
    place = Place(folder, "--keys", keys.folder).start_broker()
    place.keys = keys
    place.start_keyed_engine(folder / "engine.key")
    yield place
    place.close()
