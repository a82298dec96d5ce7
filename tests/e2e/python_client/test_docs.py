"""The examples in the docstrings run, and what is generated fits the schemas."""
import asyncio
import doctest
import importlib
import pkgutil
import re
import subprocess
import sys

import millrace
import pytest
from client_place import BIN, ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
MODULES = ["millrace", *sorted(f"millrace.{module.name}"
                               for module in pkgutil.iter_modules(millrace.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, request, tmp_path):
    module = importlib.import_module(name)
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    if not tests:
        return
    client = request.getfixturevalue("client")
    for test in tests:
        test.globs.update(millrace=millrace, client=client, asyncio=asyncio, folder=tmp_path,
                          programs=BIN)
        told = []
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=told.append)
        assert not told, "".join(told)


def test_the_examples_are_found():
    found = {test.name for name in MODULES
             for test in doctest.DocTestFinder().find(importlib.import_module(name))
             if test.examples}
    assert {"millrace", "millrace.client.Client.map", "millrace.aio.AsyncClient"} <= found


# What `pip install ./client/python`, the command that the README gives, leaves out.
WITHOUT_EXTRAS = """import sys
sys.modules.update(dict.fromkeys(("numpy", "tqdm", "tqdm.auto", "pandas", "polars", "datasets")))
"""
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "client/python/README.md").read_text(), re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_examples_of_the_readme_run(place, client, tmp_path, number):
    """As printed, without the optional packages, with a stub engine in place of the engine."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "millrace-broker").symlink_to(BIN / "millrace-broker")
    (programs / "millrace-engine").symlink_to(BIN / "stub_engine")
    (tmp_path / "prompts.txt").write_text("a\nb\n")
    place.env["MILLRACE_PROGRAMS"] = str(programs)
    program = place.python("-c", WITHOUT_EXTRAS + BLOCKS[number], cwd=tmp_path,
                           stderr=subprocess.PIPE)
    told, wrong = program.communicate()
    assert program.returncode == 0, wrong
    assert "a stub's answer" in told or "logprobs" in BLOCKS[number]


def test_the_readme_begins_with_ten_lines():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 10, len(lines)


def test_the_generated_tables_fit_the_schemas():
    program = ROOT / "client" / "python" / "tools" / "generate.py"
    subprocess.run([sys.executable, program, "--check"], check=True)
