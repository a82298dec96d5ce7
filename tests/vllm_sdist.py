"""The classes of `vllm serve`'s requests and responses, from the sdist of PyPI `vllm`.

Of its 47 MB only these files are kept. pip cannot fetch them, because the sdist's metadata needs
torch; so they come from PyPI by address, and are checked."""
import fcntl
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import sys
import tarfile
import typing
import unittest.mock
import urllib.parse
import urllib.request

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
INDEX = "https://pypi.org/pypi/vllm/json"
VERSION = "0.33.0"
SHA256 = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112"
FILES = [f"vllm/entrypoints/{name}/protocol.py" for name in (
    "generate/base", "openai/chat_completion", "openai/completion", "serve/engine",
    "serve/tokenize")]


def folder():
    """The folder with the files, which are fetched once."""
    place = CACHE / "millrace" / "vllm" / VERSION
    place.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(VERSION + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((place / name).exists() for name in FILES):
            fetch(place)
    return place


def fetch(place):
    with urllib.request.urlopen(INDEX, timeout=60) as answer:
        files = json.load(answer)["releases"][VERSION]
    address = next(x["url"] for x in files if x["packagetype"] == "sdist")
    with urllib.request.urlopen(urllib.parse.urljoin(INDEX, address), timeout=300) as answer:
        data = answer.read()
    assert hashlib.sha256(data).hexdigest() == SHA256, f"{address} is not the file that it was"
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for name in FILES:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(tar.extractfile(f"vllm-{VERSION}/{name}").read())


class Anything(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for vLLM's modules, but for those in FILES: their classes are any type, their
    functions do nothing."""

    def __init__(self, place):
        self.place = place

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "vllm":
            return None
        file = self.place / (name.replace(".", "/") + ".py")
        if file.exists():
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module):
        def of(name):
            if name.startswith("__"):
                raise AttributeError(name)
            if name.isupper():
                return 1 << 20  # a limit
            return typing.Any if name[0].isupper() else unittest.mock.MagicMock()
        module.__getattr__ = of


def load():
    """The modules of FILES, by the part of their path that tells them apart."""
    finder = Anything(folder())
    sys.meta_path.insert(0, finder)
    try:
        return {name.split("/")[-2]: importlib.import_module(
            name.removesuffix(".py").replace("/", ".")) for name in FILES}
    finally:
        sys.meta_path.remove(finder)
        for name in [x for x in sys.modules if x.partition(".")[0] == "vllm"]:
            del sys.modules[name]
