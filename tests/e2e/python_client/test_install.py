"""The package is installed by pip and needs nothing but pyzmq and msgpack."""
import ast
import os
import re
import shutil
import subprocess
import sys

import pytest
from client_place import PACKAGE, ROOT

PROJECT = ROOT / "client" / "python"
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(("numpy", "tqdm", "tqdm.auto", "pandas", "typing_extensions")))
import array, millrace
assert millrace.__file__.startswith(sys.argv[1]), millrace.__file__
with millrace.Client() as client:
    result, = client.map(["The sea is"], max_tokens=4)
    assert isinstance(result.choices[0].tokens, array.array), result
    rows = millrace.TokenLogprobs({"top": 2, "top_ids": bytes(32), "token": bytes(16)})
    assert [list(row) for row in rows.top_ids] == [[0, 0]] * 4 and len(rows.token) == 4
    rows = millrace.TokenLogprobs({"listed": {"ids": bytes(8), "logprobs": bytes(24)}}).listed
    assert [list(row) for row in rows.logprobs] == [[0, 0]] * 3
    print(result.text)
"""


def test_the_sources_are_python_3_9():
    files = [*PACKAGE.rglob("*.py"), *(PROJECT / "examples").glob("*.py")]
    assert len(files) > 20
    for path in files:
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        unions = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)
                  and isinstance(node.op, ast.BitOr)]
        postponed = "from __future__ import annotations" in path.read_text()
        assert postponed or not [node for node in unions if not isinstance(
            node.left, (ast.BinOp, ast.Attribute))], path  # such as SIG | SIG


def test_nothing_else_is_imported():
    """Beside the standard library: what pyproject.toml names, and some where they are installed."""
    told = re.search(r"^dependencies = \[(.*)\]", (PROJECT / "pyproject.toml").read_text(), re.M)
    assert re.findall(r'"(\w+)', told[1]) == ["msgpack", "pyzmq"]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
             for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Import) or isinstance(node, ast.ImportFrom) and not node.level}
    foreign = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert foreign == {"msgpack", "zmq", "numpy", "tqdm", "typing_extensions", "opentelemetry"}


def test_it_works_without_what_is_optional(place):
    program = place.python("-c", PROGRAM, PACKAGE, stderr=subprocess.PIPE)
    told = program.communicate()
    assert told[0] == "a stub's answer\n", told[1]


@pytest.mark.long
def test_pip_installs_it_into_a_bare_python(place, tmp_path):
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    project = tmp_path / "python"  # pip builds beside the sources
    shutil.copytree(PROJECT, project)
    subprocess.run([home / "bin" / "pip", "install", "-q", project], check=True)
    listed = subprocess.run([home / "bin" / "pip", "list", "--format=freeze"], check=True,
                            text=True, capture_output=True).stdout
    names = {line.split("==")[0].split(" ")[0] for line in listed.splitlines()}
    assert names <= {"millrace", "msgpack", "pyzmq", "pip", "setuptools"}, names
    env = {**os.environ, "XDG_RUNTIME_DIR": place.runtime}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([home / "bin" / "python", "-I", "-c", PROGRAM, home], env=env, text=True,
                          capture_output=True)
    assert done.stdout == "a stub's answer\n", done.stderr
    typed = list(home.glob("lib/*/site-packages/millrace/py.typed"))
    assert len(typed) == 1
