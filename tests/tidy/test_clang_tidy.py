"""Runs clang-tidy over our own sources, as many at a time as there are cores.

The tool spends nearly all its time on the headers of the standard library. So it reads the sources
of a folder as one file that includes them, except for sources whose local names would collide.

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
import shlex
import shutil
import subprocess
import sys
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
TOOL = shutil.which("clang-tidy", path=str(pathlib.Path(sys.executable).parent))
PRODUCT = ("schemas", "broker", "engine", "client", "http", "kernels")
OTHERS = ("tests", "bench")
GCC_ONLY = re.compile(r"-Winvalid-pch -include \S+/cmake_pch\.hxx|-fpch-preprocess"
                      "|--coverage -fprofile-abs-path -fprofile-update=atomic")
LOCAL_NAME = re.compile(
    r"^(?!namespace|using|template)(?:\w[\w:<>,*& ]*[ *&])?(\w+)(?:\(|\[| =|\{| \{|;)", re.M)
ABSOLUTE = re.compile(r'^#include "(/[^"]+)"', re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


@functools.cache
def commands():
    """Returns the compile commands of each of our sources.

    They are without GCC's precompiled headers and counters, which the tool does not know. A unity
    file, which CMake wrote and which includes several sources, stands for each of these.
    """
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        command, file = GCC_ONLY.sub("", entry["command"]), entry["file"]
        whole = "/Unity/unity_" in file
        for path in ABSOLUTE.findall(pathlib.Path(file).read_text()) if whole else [file]:
            found.setdefault(pathlib.Path(path).resolve(), []).append(command.replace(file, path))
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


def local_names(path):
    """Returns what a source declares at the start of a line: names that may collide in one file."""
    return set(LOCAL_NAME.findall(path.read_text(encoding="utf-8")))


def groups(files):
    """Returns lists of files that can be read as one: same folder and flags, no name twice."""
    found = []
    for path in files:
        key, names = (path.parent, flags(path)), local_names(path)
        for group in found:
            if group.key == key and not group.names & names:
                break
        else:
            found.append(group := types.SimpleNamespace(key=key, names=set(), files=[]))
        group.files.append(path)
        group.names |= names
    return [group.files for group in found]


def flags(path):
    """Returns a source's compile command without compiler, output and input."""
    words = shlex.split(commands()[path][0])
    compiler = next(i for i, word in enumerate(words) if word.endswith("++"))
    return tuple(words[compiler + 1:words.index("-o")])


def run_tool(files, extra):
    """Runs the tool over files of one folder; returns what it says if it fails, never ""."""
    whole = files[0]
    if len(files) > 1:
        text = "".join(f'#include "{path}"  // NOLINT\n' for path in files)
        whole = BUILD / "clang-tidy" / (hashlib.sha256(text.encode()).hexdigest()[:16] + ".cpp")
        whole.parent.mkdir(exist_ok=True)
        whole.write_text(text)
    result = subprocess.run(
        [TOOL, "--quiet", f"--config-file={configurations(files[0])[0]}",
         r"--header-filter=(schemas|broker|engine|client|http|kernels|tests|bench)/.*\.[ch]pp$",
         *extra, str(whole), "--", *flags(files[0]),
         # The commands are GCC's, and libstdc++ uses a buffer that it has itself deprecated.
         "-Wno-unknown-warning-option", "-Wno-deprecated-declarations",
         "-Wno-unused-command-line-argument",
         # A name of one source may hide another's.
         *(["-Wno-shadow"] if len(files) > 1 else [])],
        capture_output=True, text=True)
    if result.returncode == 0:
        return None
    return result.stdout or f"exit status {result.returncode}: {result.stderr}"


def check(files, passed, extra):
    """Checks files that can be read as one; returns what was found, and remembers what passed."""
    found = run_tool(files, extra)
    if found and len(files) > 1 and "[clang-diagnostic-error]" in found:
        return "\n".join(x for path in files if (x := check([path], passed, extra)))
    if found:
        return f"{', '.join(str(x.relative_to(ROOT)) for x in files)}\n{found[-6000:]}"
    for path in files:
        (passed / digest(path, extra)).touch()
    return None


def is_new(path, passed, extra):
    entry = passed / digest(path, extra)
    if entry.exists():
        entry.touch()  # keeps the entry from being removed as old
    return not entry.exists()


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
    todo = sorted(groups([path for path in files if is_new(path, passed, extra)]), key=len)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [x for x in pool.map(lambda f: check(f, passed, extra), reversed(todo)) if x]


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


def test_a_defect_in_a_file_read_with_others_is_found(tmp_path, monkeypatch):
    good = ("namespace {\nint twice(int x) {\n  return 2 * x;\n}\n}\n"
            "int NAME() {\n  return twice(1);\n}\n")
    bad = "#include <string>\nint BAD(std::string text) {\n  return int(text.size());\n}\n"
    hidden = "#define LINK int twice\nnamespace {\nLINK(int x) {\n  return x;\n}\n}\n"
    texts = {"a.cpp": good.replace("NAME", "a"), "b.cpp": good.replace("NAME", "b"),
             "c.cpp": bad, "d.cpp": hidden}
    folder = tmp_path / "engine"
    folder.mkdir()
    (tmp_path / ".clang-tidy").write_bytes((ROOT / ".clang-tidy").read_bytes())
    paths = [folder / name for name in texts]
    for path in paths:
        path.write_text(texts[path.name])
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "BUILD", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "commands", lambda: {
        path: [f"ccache c++ -std=c++23 -o x.o -c {path}"] for path in paths})
    a, b, c, d = paths
    assert groups(paths) == [[a, c, d], [b]]
    passed = tmp_path / "passed"
    passed.mkdir()
    found = check([a, c], passed, ())
    assert "c.cpp:2" in found and "performance-unnecessary-value-param" in found, found
    # A collision that the names do not show has each file read alone.
    found = check([a, c, d], passed, ())
    assert found.startswith("engine/c.cpp") and is_new(c, passed, ())
    assert not is_new(a, passed, ()) and not is_new(d, passed, ())
    # A tool that fails without a finding has not passed anything.
    assert "exit status" in check([b], passed, ("--no-such-option",))
    assert is_new(b, passed, ("--no-such-option",))
