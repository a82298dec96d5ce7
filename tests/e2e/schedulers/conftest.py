import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "client"), str(HERE.parent / "broker")]
from keyed_place import KeyedPlace  # noqa: E402


@pytest.fixture
def place(tmp_path):
    """A broker with keys on TCP, and millrace-engine on the path: the engine without a model."""
    one = KeyedPlace(tmp_path)
    one.start()
    yield one
    one.stop()


@pytest.fixture
def path(tmp_path):
    """A path on which millrace-engine is a program that writes how it was started."""
    folder = tmp_path / "path"
    folder.mkdir()
    said = tmp_path / "said"
    engine = folder / "millrace-engine"
    engine.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{said}\necho "$XDG_CACHE_HOME" >>{said}\n')
    engine.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}, said
