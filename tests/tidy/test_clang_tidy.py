"""clang-tidy over our own sources, as many at a time as there are cores.

What passed is remembered in the build folder, by a hash of the file, every header of ours, the
configuration and the tool's version. The tool comes with tests/requirements.txt: from version 21 on
it passes over system headers, which were most of its time.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
TOOL = shutil.which("clang-tidy", path=str(pathlib.Path(sys.executable).parent))
PARTS = ("schemas/", "broker/", "engine/", "client/")


def sources():
    database = json.loads((BUILD / "compile_commands.json").read_text())
    names = {pathlib.Path(entry["file"]).resolve() for entry in database}
    return sorted(n for n in names if n.is_relative_to(ROOT)
                  and n.relative_to(ROOT).as_posix().startswith(PARTS))


def common_digest():
    assert TOOL, "no clang-tidy beside this Python: ops/test makes an environment that has it"
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(subprocess.run([TOOL, "--version"], capture_output=True, check=True).stdout)
    for part in PARTS:
        for header in sorted((ROOT / part).rglob("*.hpp")):
            digest.update(header.read_bytes())
    return digest.hexdigest()


def check(path, common, passed, extra=()):
    common += " ".join(extra)
    key = hashlib.sha256((common + path.read_text(encoding="utf-8")).encode()).hexdigest()
    if (passed / key).exists():
        return None
    result = subprocess.run(
        [TOOL, "--quiet", "-p", str(BUILD), str(path),
         # The database is GCC's, and libstdc++ uses its own deprecated buffer.
         "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-deprecated-declarations",
         "--extra-arg=-Wno-unused-command-line-argument",
         *extra],
        capture_output=True, text=True)
    if result.returncode == 0:
        (passed / key).touch()
        return None
    return f"{path.relative_to(ROOT)}\n{result.stdout[-3000:]}"


def complaints(files, *extra):
    assert files, "compile_commands.json names none of our sources"
    passed = BUILD / "clang-tidy-passed"
    passed.mkdir(exist_ok=True)
    common = common_digest()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [x for x in pool.map(lambda f: check(f, common, passed, extra), files) if x]


def test_clang_tidy():
    assert not (bad := complaints(sources())), "\n".join(bad)


@pytest.mark.long
def test_clang_analyzer():
    """Paths through functions: slower than all other checks together."""
    checks = "--checks=-*,clang-analyzer-core*,clang-analyzer-deadcode*"
    assert not (bad := complaints(sources(), checks)), "\n".join(bad)
