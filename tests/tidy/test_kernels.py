"""Kernel sources read alone: each names what it needs, and compiles by itself with its defaults."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"
# OpenCL C 1.2 with every warning, but for what a file that stands alone cannot help: functions
# that it has for others, and functions that others define.
CLANG = ["clang-19", "-x", "cl", "-cl-std=CL1.2", "-fsyntax-only", "-Wall", "-Wundef", "-Werror",
         "-Wno-unused-function", "-Wno-undefined-internal", "-Wno-pragma-once-outside-header"]
# Defines, and the files to which they matter: the cpu family chooses dot products, work-items of
# the others share a row, and recurrences have kinds.
CHOICES = [("", ""), ("-DDOT=1", "cpu.cl"), ("-DDOT=2", "cpu.cl"), ("-DDOT=3", "cpu.cl"),
           ("-DDOT=4", "cpu.cl"), ("-DROW_ITEMS=32", "generic.cl"), ("-DROW_ITEMS=32", "norm/"),
           ("-DROW_ITEMS=32", "quantize/"), ("-DROW_ITEMS=32", "recurrence/"),
           ("-DDELTA=0", "recurrence"), ("-DCONVOLVE_GATED=1", "recurrence"),
           ("-DGATES_BY_KEY_HEAD=1 -DKEYS_IN_TURN=1", "recurrence")]
INCLUDE = re.compile(r'^#include "([^"]+)"$')


def sources(folder=KERNELS):
    return sorted(p.relative_to(folder).as_posix() for end in ("cl", "h")
                  for p in folder.rglob("*." + end))


def complaints(folder, name, *options):
    result = subprocess.run([*CLANG, "-I", str(folder), *options, str(folder / name)],
                            capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def late_imports(folder):
    """A file with #pragma once stands before its user wherever that includes it, so the line must
    not look as if a macro or a condition above it counted."""
    found = []
    for name in sources(folder):
        code = False
        for number, line in enumerate((folder / name).read_text().split("\n"), 1):
            include = INCLUDE.match(line)
            if include and code and "#pragma once\n" in (folder / include[1]).read_text():
                found.append(f"{name}:{number}: {line} comes after other code")
            code = code or not (include or not line or line.startswith("//")
                                or line == "#pragma once")
    return found


def embedded(folder, out):
    return subprocess.run(
        ["cmake", f"-DOUTPUT={out}", f"-DFOLDER={folder}", f"-DFILES={','.join(sources(folder))}",
         "-P", str(KERNELS / "embed.cmake")], capture_output=True, text=True)


@pytest.mark.parametrize(("define", "part"), CHOICES)
def test_each_source_compiles_alone(define, part):
    names = [n for n in sources() if part in n]
    assert len(names) >= (3 if part else 50)
    bad = {n: text for n in names if (text := complaints(KERNELS, n, *define.split()))}
    assert not bad, "\n".join(bad.values())


def test_a_source_that_needs_another_is_seen(tmp_path):
    (tmp_path / "a.cl").write_text("static inline float f(float x) { return mr_exp(x); }\n")
    (tmp_path / "b.cl").write_text("#if WITHOUT_DEFAULT\n#endif\n")
    assert "mr_exp" in complaints(tmp_path, "a.cl")
    assert "WITHOUT_DEFAULT" in complaints(tmp_path, "b.cl")


def test_imports_come_first():
    assert not (found := late_imports(KERNELS)), "\n".join(found)


def test_a_late_import_is_seen(tmp_path):
    (tmp_path / "once.cl").write_text("#pragma once\n")
    (tmp_path / "template.cl").write_text("int x;\n")
    (tmp_path / "user.cl").write_text('// contract\n#include "once.cl"\n\n#define N 1\n'
                                      '#include "template.cl"\n#include "once.cl"\n')
    assert late_imports(tmp_path) == ['user.cl:6: #include "once.cl" comes after other code']


def test_an_include_of_no_file_fails_the_build(tmp_path):
    out = tmp_path / "embedded.cpp"
    (tmp_path / "a.cl").write_text("#pragma once\n")
    (tmp_path / "b.cl").write_text('// contract\n#include "a.cl"\n')
    assert embedded(tmp_path, out).returncode == 0 and out.exists()
    (tmp_path / "b.cl").write_text('// contract\n#include "x/none.cl"\n')
    refused = embedded(tmp_path, out)
    assert refused.returncode != 0
    assert 'kernels/b.cl: #include "x/none.cl"' in " ".join(refused.stderr.split())
