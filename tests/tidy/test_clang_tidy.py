"""Runs clang-tidy over our own sources, as many at a time as there are cores.

The cache folder remembers files that passed, by a hash of the file, every header of ours that it
includes, its compile command, the configuration and the tool's version. So a second run takes
seconds, also in another checkout. The tool comes with tests/requirements.txt: from version 21 on it
skips system headers, which took most of its time.
"""
import concurrent.futures
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
TOOL = shutil.which("clang-tidy", path=str(pathlib.Path(sys.executable).parent))
PRODUCT = ("schemas", "broker", "engine", "client", "kernels")
OTHERS = ("tests", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


@functools.cache
def commands():
    """Returns the compile commands of each of our sources."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        found.setdefault(pathlib.Path(entry["file"]).resolve(), []).append(entry["command"])
    return {path: found[path] for path in sorted(found) if path.is_relative_to(ROOT)}


def sources(parts):
    return [path for path in commands() if path.relative_to(ROOT).parts[0] in parts]


@functools.cache
def includes(path):
    """Returns our own headers that a file includes."""
    names = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [header for name in names if (header := ROOT / name).is_file()]


def configurations(path):
    """Returns the files .clang-tidy that apply to a source, from its folder up to the root."""
    return [found for folder in path.parents if folder.is_relative_to(ROOT)
            and (found := folder / ".clang-tidy").is_file()]


def digest(path, extra):
    """Hashes everything that can change the tool's findings about a source."""
    whole, todo = set(), [path]
    while todo:
        whole.add(one := todo.pop())
        todo += [header for header in includes(one) if header not in whole]
    words = "\n".join([version(), str(path), *extra, *commands().get(path, [])])
    for folder, name in ((BUILD, "BUILD"), (ROOT, "ROOT")):
        words = words.replace(str(folder.resolve()), name)
    hasher = hashlib.sha256(words.encode())
    for one in sorted(whole) + configurations(path):
        hasher.update(hashlib.sha256(one.read_bytes()).digest())
    return hasher.hexdigest()


@functools.cache
def version():
    assert TOOL, "this Python environment has no clang-tidy: use .venv, which ops/test makes"
    return subprocess.run([TOOL, "--version"], capture_output=True, check=True, text=True).stdout


def check(path, passed, extra=()):
    key = digest(path, extra)
    if (passed / key).exists():
        (passed / key).touch()  # keeps the entry from being removed as old
        return None
    result = subprocess.run(
        [TOOL, "--quiet", "-p", str(BUILD), str(path),
         # The commands are GCC's, and libstdc++ uses a buffer that it has itself deprecated.
         "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-declarations",
         "--extra-arg=-Wno-unused-command-line-argument",
         *extra],
        capture_output=True, text=True)
    if result.returncode == 0:
        (passed / key).touch()
        return None
    return f"{path.relative_to(ROOT)}\n{result.stdout[-3000:]}"


def forget_old(folder):
    month_ago = time.time() - 30 * 24 * 3600
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another run may remove it at the same time
            if entry.stat().st_mtime < month_ago:
                entry.unlink()


def complaints(files, *extra):
    assert files, "compile_commands.json names none of our sources"
    passed = CACHE / "millrace/clang-tidy"
    passed.mkdir(parents=True, exist_ok=True)
    forget_old(passed)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [x for x in pool.map(lambda f: check(f, passed, extra), files) if x]


def test_clang_tidy():
    assert not (bad := complaints(sources(PRODUCT))), "\n".join(bad)


@pytest.mark.long
def test_clang_tidy_of_tests_and_benchmarks():
    """Takes longer than the product's sources: each file of tests includes GoogleTest."""
    assert not (bad := complaints(sources(OTHERS))), "\n".join(bad)


@pytest.mark.long
def test_clang_analyzer():
    """Analyses paths through functions of the product; slower than all other checks together."""
    checks = "--checks=-*,clang-analyzer-core*,clang-analyzer-deadcode*"
    assert not (bad := complaints(sources(PRODUCT), checks)), "\n".join(bad)


def test_what_passed_is_checked_again_where_something_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    source = tmp_path / "tests/a.cpp"
    source.write_text('#include <string>\n#include "tests/b.hpp"\n')
    (tmp_path / "tests/b.hpp").write_text('#include "c.hpp"\n')
    seen = {digest(source, ("--checks=x",))}
    for name in ("c.hpp", "tests/b.hpp", "tests/a.cpp", ".clang-tidy", "tests/.clang-tidy"):
        assert digest(source, ()) == digest(source, ())
        seen.add(digest(source, ()))
        with open(tmp_path / name, "a") as file:
            file.write("// changed\n")
        includes.cache_clear()
    (tmp_path / "other.hpp").write_text("")
    seen.add(digest(source, ()))
    assert len(seen) == 7
