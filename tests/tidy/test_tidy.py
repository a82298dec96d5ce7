"""Checks house rules: layout, line and file length, includes, format, leftovers.

ARCHITECTURE.md, "Where things live", has the table of who may include whom; change both together.
"""
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".cpp", ".hpp", ".h", ".cl", ".py", ".js", ".css"}
LINE_LIMIT = 100
FILE_LIMIT = 400  # most files stay under 300

# folder -> which of our folders it may include; the longest matching folder counts.
MAY_INCLUDE = {
    "schemas/base": ["schemas/base"],
    "schemas": ["schemas"],
    "broker": ["broker", "schemas"],
    "engine/core": ["engine/core", "schemas/base", "kernels"],
    "engine/supervise": ["engine/supervise", "schemas/base"],
    "engine/worker": ["engine/worker", "engine/supervise", "engine/core", "schemas",
                      "http/server.hpp", "http/address.hpp"],
    "http": ["http", "client/lines", "client/link", "schemas"],
    "client": ["client", "schemas"],
    "tests": [""],
    "bench": [""],
}
MUST_NOT_INCLUDE = {"engine/core": ["schemas/base/net", "schemas/base/metrics"]}
# Exceptions for commands: `run` contains a broker and starts an engine, others load a model.
EXTRA = {
    "broker/server/metrics_server": ["http"],
    "broker/server/main.cpp": ["http"],
    "client/run": ["broker", "engine/supervise", "engine/worker/options.hpp"],
    "client/commands/serve": ["http"],
    "client/commands": ["engine/core", "engine/worker/driver_guard.hpp",
                        "engine/worker/options.hpp", "broker"],
}
# Headers that take seconds to compile, which our headers must not include.
HEAVY = re.compile(r"msgpack|CL/opencl\.hpp|nlohmann/|CLI/|spdlog/|zmq\.hpp|sqlite3\.h|"
                   r"microhttpd\.h|prometheus/|curl/")
# Only sources include these.
PRIVATE = {"schemas/pack.hpp", "schemas/tools/json_types.hpp", "schemas/openai/request_json.hpp"}
ENGINE_CORE_BANNED = re.compile(r"[<\"](zmq|msgpack|sqlite3)")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.M)
GIVEN_LOCAL = re.compile(r"^(?:static|MR_GROUP_INLINE)\b[^;{=]*\([^;{]*__local\b", re.M)
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def tracked(*suffixes):
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True,
                           text=True).stdout.split("\n")
    return [ROOT / n for n in names if n and (not suffixes or pathlib.Path(n).suffix in suffixes)
            and (ROOT / n).exists()]


def relative(path):
    return path.relative_to(ROOT).as_posix()


def longest_prefix(table, name):
    fits = [folder for folder in table if name.startswith(folder + "/")]
    return max(fits, key=len) if fits else None


def test_line_length():
    bad = []
    for path in tracked(*CODE):
        if relative(path) == relative(pathlib.Path(__file__)):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if len(line) > LINE_LIMIT and "http" not in line:
                bad.append(f"{relative(path)}:{number} has {len(line)} columns")
    assert not bad, "\n".join(bad)


def test_file_length():
    lengths = sorted(((len(p.read_text(encoding="utf-8").split("\n")), relative(p))
                      for p in tracked(*CODE)), reverse=True)
    print("\n".join(f"{n:5d} {name}" for n, name in lengths[:20]))
    assert not [x for x in lengths if x[0] > FILE_LIMIT]


def test_the_scheduler_reads_like_a_page():
    """It is one file of at most 300 lines, and includes no device header, directly or not."""
    path = ROOT / "engine/core/scheduler/scheduler.cpp"
    assert path.read_text(encoding="utf-8").count("\n") <= 300
    seen, todo = set(), [path]
    while todo:
        text = todo.pop().read_text(encoding="utf-8")
        assert not re.search(r"#include .*(CL/|opencl|core/device/)", text)
        ours = {ROOT / target for _, target in INCLUDE.findall(text)}
        todo += [p for p in ours - seen if p.is_file()]
        seen |= ours
    assert ROOT / "engine/core/kv/page_pool.hpp" in seen


def test_no_leftovers():
    bad = [f"{relative(p)}: {m.group(0)}" for p in tracked(*CODE, ".md", ".cmake", ".txt")
           if relative(p) != relative(pathlib.Path(__file__))
           for m in LEFTOVERS.finditer(p.read_text(encoding="utf-8"))]
    assert not bad, "\n".join(bad)


def test_includes_follow_the_table():
    bad = []
    for path in tracked(".cpp", ".hpp"):
        name = relative(path)
        owner = longest_prefix(MAY_INCLUDE, name)
        if owner is None:
            continue
        extra = [x for folder, more in EXTRA.items() if name.startswith(folder) for x in more]
        allowed = MAY_INCLUDE[owner] + extra
        for kind, target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if kind == "<" or not (ROOT / target).exists():
                continue
            banned = [x for x in MUST_NOT_INCLUDE.get(owner, []) if target.startswith(x)]
            if banned or not any(target.startswith(x) for x in allowed):
                bad.append(f"{name} may not include {target}")
    assert not bad, "\n".join(bad)


def test_heavy_headers_stay_in_sources():
    bad = [f"{relative(p)} includes {target}" for p in tracked(".hpp")
           for kind, target in INCLUDE.findall(p.read_text(encoding="utf-8"))
           if kind == "<" and HEAVY.search(target) and relative(p) not in PRIVATE]
    assert not bad, "\n".join(bad)


def test_engine_core_stands_alone():
    bad = [relative(p) for p in tracked(".cpp", ".hpp") if relative(p).startswith("engine/core/")
           and ENGINE_CORE_BANNED.search(p.read_text(encoding="utf-8"))]
    assert not bad, f"engine/core must not use ZeroMQ, msgpack or SQLite: {bad}"


def family_questions(texts):
    """Returns the names of sources that name a family of devices or ask a device for its own."""
    header = (ROOT / "engine/core/device/device.hpp").read_text(encoding="utf-8")
    names = re.search(r"enum class Family : [\w:]+ \{ ([\w, ]+) \};", header)[1].split(", ")
    asks = re.compile(rf"\bFamily::(?:{'|'.join(names)})\b|\bfamily\(\)")
    return [name for name, text in texts if asks.search(text)]


def test_only_devices_and_the_factory_of_backends_know_families():
    """A backend stands for a family of devices; the code above it is the same for all."""
    product = [(relative(p), p.read_text(encoding="utf-8")) for p in tracked(".cpp", ".hpp")
               if relative(p).startswith(("engine/", "client/", "broker/", "schemas/", "kernels/"))
               and not relative(p).startswith("engine/core/device/")]
    assert family_questions(product) == ["engine/core/model/backend/make_backend.cpp"]
    seen = [("a.cpp", "if (device.family() == other)"), ("b.cpp", "run(Family::cpu);"),
            ("c.cpp", "find(all, name, &Family::architecture), parts.family(x)")]
    assert family_questions(seen) == ["a.cpp", "b.cpp"]


def test_the_broker_decodes_jobs_on_the_way_in_and_results_never():
    """Results are bytes to the broker; the fields of a job that it needs are ledger columns."""
    found = {}
    for path in tracked(".cpp", ".hpp"):
        if relative(path).startswith("broker/"):
            text = path.read_text(encoding="utf-8")
            for name in re.findall(r"\bdecode_(?:job|result|generation)\b", text):
                found.setdefault(name, []).append(relative(path))
    assert found == {"decode_job": ["broker/core/submissions.cpp"] * 2}


def test_every_folder_has_a_readme():
    folders = {p.parent for p in tracked(*CODE)} - {ROOT}
    # The nearest README above describes folders of tests and kernels, and deeper folders.
    need = {f for f in folders if len(f.relative_to(ROOT).parts) <= 2
            and f.relative_to(ROOT).parts[0] not in ("tests", "kernels")}
    need |= {ROOT / "tests", ROOT / "kernels"}
    missing = [relative(f) for f in sorted(need) if not (f / "README.md").exists()]
    assert not missing, f"no README.md in {missing}"


def test_tables_of_files_name_every_header():
    tables = {p.parent: p.read_text(encoding="utf-8") for p in tracked(".md")
              if p.name == "README.md" and p.relative_to(ROOT).parts[0] not in ("tests", "bench")}
    tables = {folder: text for folder, text in tables.items() if "\n| file |" in text}
    assert len(tables) > 10
    missing = [relative(p) for p in tracked(".hpp", ".h", ".cl")
               if p.parent in tables and p.stem not in tables[p.parent]]
    assert not missing, f"their folder's README does not name {missing}"


def test_examples_use_the_public_package_and_have_a_row():
    """People copy them: no internal module of the package, and the README says what each shows."""
    files = [p for p in tracked() if relative(p).startswith("examples/")]
    assert len(files) > 2
    inner = [relative(p) for p in files if re.search(r"\bmillrace\._", p.read_text("utf-8"))]
    assert not inner, f"they use what is internal: {inner}"
    rows = re.findall(r"^\| \[([\w.]+)\]\(\1\) \|",
                      (ROOT / "examples/README.md").read_text("utf-8"), re.M)
    programs = {p.name for p in files if p.parent == ROOT / "examples"} - {"README.md"}
    assert sorted(rows) == sorted(programs)


def test_python_packages_have_exact_versions():
    files = [p for p in tracked(".txt") if p.name == "requirements.txt"]
    assert len(files) >= 2
    bad = [f"{relative(p)}: {line}" for p in files for line in p.read_text().splitlines()
           if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)]
    assert not bad, "\n".join(bad)


def test_headers_have_a_guard():
    bad = [relative(p) for p in tracked(".hpp", ".h") if "#pragma once" not in p.read_text()]
    assert not bad


def test_functions_given_local_memory_are_inlined():
    """PoCL lets all groups share the array of a static function that is not inlined
    (prelude.cl)."""
    found = [(relative(p), m.group(0)) for p in tracked(".cl")
             for m in GIVEN_LOCAL.finditer(p.read_text(encoding="utf-8"))]
    assert len(found) >= 4, "too few functions found: correct the pattern GIVEN_LOCAL"
    bad = [f"{name}: {head}" for name, head in found if head.startswith("static")]
    assert not bad, "\n".join(bad)


def test_format():
    assert shutil.which("clang-format"), "clang-format is missing: run ops/setup --tests"
    files = [str(p) for p in tracked(".cpp", ".hpp", ".h")]
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *files],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:4000]


def test_the_check_itself_sees_a_violation():
    """The include table can fail: the engine's core may not include a broker header."""
    assert longest_prefix(MAY_INCLUDE, "engine/core/x.cpp") == "engine/core"
    assert not any("broker/a.hpp".startswith(x) for x in MAY_INCLUDE["engine/core"])
    with pytest.raises(AssertionError):
        assert not LEFTOVERS.findall("// " + "TO" + "DO: later")
