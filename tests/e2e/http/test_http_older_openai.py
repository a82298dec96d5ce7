"""The scenarios of this folder with the openai package of a year ago, in an environment of its own.
"""
import pathlib
import subprocess

import openai
import pytest
from own_python import own_python

HERE = pathlib.Path(__file__).resolve().parent
# Those of `millrace serve` say nothing about the package that the others do not, and take longest.
FILES = ["test_http_openai.py", "test_http_openai_parts.py", "test_http_openai_errors.py",
         "test_http_async.py", "test_http_keys.py", "test_http_files.py", "test_http_batches.py"]


@pytest.fixture(scope="module")
def python():
    return own_python(HERE / "older_openai")


def test_it_is_another_version(python):
    told = subprocess.run([python, "-c", "import openai; print(openai.__version__)"], check=True,
                          text=True, capture_output=True).stdout
    assert int(told.partition(".")[0]) < int(openai.__version__.partition(".")[0])


@pytest.mark.parametrize("name", FILES)
def test_scenarios(python, name):
    done = subprocess.run([python, "-m", "pytest", "-q", "-m", "not long",
                           "-p", "no:cacheprovider", HERE / name],
                          cwd=HERE, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
