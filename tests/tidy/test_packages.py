"""Checks that something in the tree includes, runs or links each Debian package of ops/setup."""
import pathlib
import re

import pytest

from tree import copied, planted

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETUP = "ops/setup"
OWN = "tests/tidy/test_packages.py"


def include(header):
    return (".cpp", ".hpp"), rf'^\s*#\s*include\s+<{re.escape(header)}'


def cmake(words):
    return ("CMakeLists.txt", ".cmake", "CMakePresets.json"), words


def run(words):
    """Matches a command of a script, or a program that Python starts."""
    return ("", ".sh", ".py"), words


# The use of each package: the files and the pattern to find there. A new package needs a row.
STANDS_FOR = {
    "g++": cmake(r"^project\(.*LANGUAGES[^)]*\bCXX\b"),
    "cmake": run(r"^\s*(?:\[.*\|\| )?cmake -S "),
    "ninja-build": run(r"\bcmake .*-G Ninja\b"),
    "ccache": cmake(r"find_program\(\w+ ccache\)"),
    "pkg-config": cmake(r"find_package\(PkgConfig\b"),
    "git": run(r'\["git", '),
    "ca-certificates": run(r"\bpip download "),  # over https
    "libzmq3-dev": cmake(r"pkg_check_modules\(ZMQ .*\blibzmq\b"),
    "cppzmq-dev": include("zmq.hpp"),
    "libmsgpack-cxx-dev": include("msgpack"),
    "libspdlog-dev": include("spdlog/"),
    "libcli11-dev": include("CLI/"),
    "nlohmann-json3-dev": include("nlohmann/"),
    "libxxhash-dev": include("xxhash.h"),
    "libutf8proc-dev": include("utf8proc.h"),
    "libsqlite3-dev": include("sqlite3.h"),
    "libpq-dev": include("libpq-fe.h"),
    "libpng-dev": include("png.h"),
    "libtomlplusplus-dev": include("toml++/"),
    "libmicrohttpd-dev": include("microhttpd.h"),
    "libcurl4-openssl-dev": include("curl/curl.h"),
    "prometheus-cpp-dev": include("prometheus/"),
    "ocl-icd-opencl-dev": cmake(r"find_package\(OpenCL\b"),
    "opencl-headers": include("CL/cl"),
    "pocl-opencl-icd": run(r"\bmillrace\" run\b"),  # on a machine without another device
    "python3": run(r"^\s*python3 "),
    "python3-venv": run(r"\bpython3 -m venv\b"),
    "python3-pip": run(r"\bpython3 -m pip download\b"),
    "libgtest-dev": include("gtest/"),
    "clang-19": cmake(r'"CMAKE_CXX_COMPILER": "clang\+\+-19"'),
    "libclang-rt-19-dev": cmake(r"-fsanitize=fuzzer\b"),
    "clang-format": run(r'\["clang-format", '),
    "gcovr": run(r"&& gcovr "),
    "oclgrind": run(r'\[?"oclgrind"'),
    "perl-doc": ((".cpp",), r"/usr/share/perl/[\d.]+/pod/"),
    "jq": run(r"^jq -"),
    "curl": ((".md",), r"^curl -"),
    "procps": run(r'\["ps", '),
    "prometheus": run(r'\["promtool", '),
    "man-db": run(r'\["man", '),
    "zsh": run(r'\["zsh", '),
    "fish": run(r'\["fish", '),
    "bash-completion": run(r"/usr/share/bash-completion/"),
    "systemd": run(r'\["systemd-analyze", '),
    "systemd-container": run(r'\["systemd-nspawn", '),
    "pgbouncer": run(r"/usr/sbin/pgbouncer"),
    "postgresql": run(r"/usr/lib/postgresql/"),
    "mmdebstrap": run(r'\["mmdebstrap", '),
    "chromium": run(r'"/usr/bin/chromium"'),
    "openssh-client": run(r'\["ssh-keygen", '),
    "openssh-server": run(r'which\("sshd"'),
    "slurmctld": run(r'launch\("slurmctld"'),
    "slurmd": run(r'launch\("slurmd"'),
    "slurm-client": run(r'"sbatch", "--parsable"'),
    "munge": run(r'launch\("munged"'),
    "dpkg-dev": cmake(r"_PACKAGE_SHLIBDEPS ON\b"),
    "file": cmake(r"_PACKAGE_SHLIBDEPS ON\b"),  # CPack asks it which files are programs
    "rabbitmq-server": run(r"/usr/lib/rabbitmq/bin/rabbitmq-server"),
}


def packages(tree):
    """Returns the words of the arrays NAME_packages=( ... )."""
    arrays = re.findall(r"^\w+_packages=\(([^)]*)\)", tree.text(SETUP), re.M)
    return [word for array in arrays for word in array.split()]


def is_used(tree, package):
    suffixes, words = STANDS_FOR[package]
    for name in tree.files:
        scripts = "" in suffixes and "." not in name.rpartition("/")[2]
        named = name.endswith(tuple(s for s in suffixes if s))
        if (scripts or named) and name not in (SETUP, OWN) and re.search(
                words, tree.text(name), re.M):
            return True
    return False


def complaints(tree):
    found = []
    for package in packages(tree):
        if package not in STANDS_FOR:
            found.append(f"{package}: add a row for its use to tests/tidy/test_packages.py")
        elif not is_used(tree, package):
            found.append(f"{package}: nothing uses it")
    return found


def test_each_package_is_used(tmp_path):
    tree = copied(ROOT, tmp_path)
    assert len(packages(tree)) > 20
    assert not (found := complaints(tree)), "\n".join(found)
    assert not (gone := STANDS_FOR.keys() - set(packages(tree))), f"not installed: {gone}"


@pytest.mark.parametrize("package, source, found", [
    ("libpng-dev", "#include <png.h>", []),
    ("libpng-dev", "// #include <png.h>", ["libpng-dev: nothing uses it"]),
    ("libbenchmark-dev", "#include <benchmark/benchmark.h>",
     ["libbenchmark-dev: add a row for its use to tests/tidy/test_packages.py"]),
])
def test_an_unused_package_is_seen(tmp_path, package, source, found):
    tree = planted(tmp_path, {SETUP: f"build_packages=(\n  {package}\n)\n", "a.cpp": source + "\n"})
    assert complaints(tree) == found
