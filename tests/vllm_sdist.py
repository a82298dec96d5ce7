#!/usr/bin/env python3
"""The classes of `vllm serve`'s requests and responses, from the source distribution of the Python
package `vllm`.

Of its 47 MB only these files are kept. `pip download` would build it to learn what it needs, and
that takes torch; so the file is looked up in the index that pip is set to use, and is checked. Run
as a program, it gets the files."""
import fcntl
import hashlib
import html.parser
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import typing
import unittest.mock
import urllib.parse
import urllib.request

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
VERSION = "0.33.0"
SHA256 = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112"
FILES = [f"vllm/entrypoints/{name}/protocol.py" for name in (
    "generate/base", "openai/chat_completion", "openai/completion", "serve/engine",
    "serve/tokenize")]


class Absent(Exception):
    """The files cannot be had on this machine; the text says why."""


def folder():
    """The folder with the files, which are fetched once."""
    place = CACHE / "millrace" / "vllm" / VERSION
    place.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(VERSION + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((place / name).exists() for name in FILES):
            fetch(place)
    return place


def index():
    """The address of the package index that pip uses: what it was set to, or its own."""
    for setting in (":env:.index-url", "download.index-url", "global.index-url"):
        told = subprocess.run([sys.executable, "-m", "pip", "config", "get", setting],
                              capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.strip():
            return told.stdout.strip().rstrip("/")
    from pip._internal.models.index import PyPI
    return PyPI.simple_url.rstrip("/")


class Links(html.parser.HTMLParser):
    """The addresses that a page refers to."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "a" and dict(attributes).get("href"):
            self.found.append(dict(attributes)["href"])


def get(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read()
    except (OSError, ValueError) as why:
        raise Absent(f"vLLM's source distribution cannot be fetched: {why}") from why


def fetch(place):
    page = f"{index()}/vllm/"
    wanted = f"vllm-{VERSION}.tar.gz"
    found = [x for x in Links(get(page).decode()).found
             if urllib.parse.urlsplit(x).path.rpartition("/")[2] == wanted]
    if not found:
        raise Absent(f"the package index of pip has no {wanted}")
    data = get(urllib.parse.urldefrag(urllib.parse.urljoin(page, found[0])).url)
    assert hashlib.sha256(data).hexdigest() == SHA256, f"{wanted} is not the file that it was"
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


if __name__ == "__main__":
    try:
        print(folder())
    except Absent as reason:
        sys.exit(f"error: {reason}")
