"""clang-tidy over our own sources, as many at a time as there are cores.

What passed is remembered in the build folder, by a hash of the file, every header of ours and the
configuration.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build"))
PARTS = ("schemas/", "broker/", "engine/", "client/")


def sources():
    database = json.loads((BUILD / "compile_commands.json").read_text())
    names = {pathlib.Path(entry["file"]).resolve() for entry in database}
    return sorted(n for n in names if n.is_relative_to(ROOT)
                  and n.relative_to(ROOT).as_posix().startswith(PARTS))


def headers_digest():
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for part in PARTS:
        for header in sorted((ROOT / part).rglob("*.hpp")):
            digest.update(header.read_bytes())
    return digest.hexdigest()


def check(path, common, passed):
    key = hashlib.sha256((common + path.read_text(encoding="utf-8")).encode()).hexdigest()
    if (passed / key).exists():
        return None
    result = subprocess.run(
        ["clang-tidy-19", "--quiet", "-p", str(BUILD), str(path),
         "--extra-arg=-Wno-unknown-warning-option"],  # the database is GCC's
        capture_output=True, text=True)
    if result.returncode == 0:
        (passed / key).touch()
        return None
    return f"{path.relative_to(ROOT)}\n{result.stdout[-3000:]}"


def test_clang_tidy():
    files = sources()
    assert files, "compile_commands.json names none of our sources"
    passed = BUILD / "clang-tidy-passed"
    passed.mkdir(exist_ok=True)
    common = headers_digest()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [x for x in pool.map(lambda f: check(f, common, passed), files) if x]
    assert not bad, "\n".join(bad)
