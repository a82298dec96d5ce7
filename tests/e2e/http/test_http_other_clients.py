"""litellm and langchain-openai in an environment of their own, which takes 500 MB of the cache."""
import pathlib
import subprocess

import pytest
from own_python import own_python

pytestmark = pytest.mark.long
HERE = pathlib.Path(__file__).resolve().parent


def test_the_common_path():
    done = subprocess.run(
        [own_python(HERE / "other_clients"), "-m", "pytest", "-q", "-p", "no:cacheprovider",
         HERE / "other_clients" / "common_path.py"], cwd=HERE, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
