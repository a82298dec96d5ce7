"""A Debian root that has Python and nothing else. The README's commands install the package there,
and the wheel with the programs runs a model, once the machine has the driver that it asks for."""
import json
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from container_file import context
from roots import inside, make_root
from staged import BIN, ROOT, model_path

pytestmark = pytest.mark.long
PROJECT = ROOT / "client" / "python"
# What pip would get from its index lies in a folder: the root needs no certificates.
PIP = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
MILLRACE = "/tmp/millrace-venv/bin/millrace"
RUN = [MILLRACE, "run", "--model", "/opt/M.gguf", "--input", "in.jsonl", "--output", "out.jsonl"]
NOTEBOOK = """
import millrace
with millrace.run("/opt/M.gguf") as local:
    print(local.generate("The capital of France is", max_tokens=8, temperature=0).text)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """With the wheel, and with what it and the build of the package need, in /wheels."""
    folder = make_root(tmp_path_factory.mktemp("roots") / "python", "python3-venv")
    built = subprocess.run([sys.executable, PROJECT / "tools" / "build_wheel.py", BIN,
                            folder / "wheels"], check=True, text=True, capture_output=True).stdout
    needs = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
    python = inside(folder, "python3", "--version").stdout.split()[1]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:",
                    f"--python-version={python}", "-d", folder / "wheels", built.strip(), *needs],
                   check=True)
    shutil.copy(model_path(), folder / "opt/M.gguf")
    (folder / "tmp/in.jsonl").write_text(
        '{"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}\n')
    return folder


def commands(page):
    """The shell commands of a page that need a network."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.search(r"^```sh network\n(.*?)^```", text, re.S | re.M)[1]


@pytest.fixture(scope="module")
def with_wheel(root):
    """The root, in which the commands of INSTALL.md have installed the wheel."""
    wheel, = (root / "wheels").glob("millrace-*.whl")
    packages = root / "tmp/clone/build/packages"
    packages.mkdir(parents=True)
    shutil.copy(wheel, packages)
    inside(root, "bash", "-ec", commands("ops/INSTALL.md"), folder="/tmp/clone", **PIP)
    return root


@pytest.mark.parametrize("page", ["README.md", "client/python/README.md"])
def test_the_commands_of_a_page_install_the_package(root, page):
    home = root / "opt" / page.replace("/", "-")
    for name in context():
        if name.startswith("client/python/"):
            (home / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, home / "clone" / name)
    script = f"{commands(page)}python3 -c 'import millrace; print(millrace.__file__)'"
    inner = f"/opt/{home.name}"
    told = inside(root, "bash", "-ec", script, folder=f"{inner}/clone", HOME=inner, **PIP).stdout
    assert told.splitlines()[-1].startswith(f"{inner}/millrace-venv/lib/"), told


def test_the_command_is_there_and_its_version_is_the_one_of_the_wheel(with_wheel):
    wheel, = (path.name for path in (with_wheel / "wheels").glob("millrace-*.whl"))
    name, number = inside(with_wheel, MILLRACE, "--version").stdout.split()
    assert wheel.startswith(f"{name}-{number}-py3-"), wheel


def test_the_programs_find_all_their_libraries_in_the_wheel_or_beside_python(with_wheel):
    package, = with_wheel.glob("tmp/millrace-venv/lib/python3*/site-packages/millrace")
    place = "/" + str(package.relative_to(with_wheel))
    for program in (package / "bin").iterdir():
        told = inside(with_wheel, "ldd", f"{place}/bin/{program.name}",
                      LD_LIBRARY_PATH=f"{place}/lib")
        assert "=>" in told.stdout and "not found" not in told.stdout, told.stdout


def test_without_a_driver_the_command_names_a_package_that_makes_it_run(with_wheel):
    """The only thing that the wheel leaves to the machine is the driver of the device."""
    done = inside(with_wheel, *RUN, folder="/tmp", check=False)
    assert done.returncode == 3 and "no_device" in done.stderr, done
    package = re.search(r"`apt install (\S+)`", done.stderr)[1]
    inside(with_wheel, "apt-get", "update", "-qq")
    inside(with_wheel, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
    inside(with_wheel, *RUN, folder="/tmp")
    result = json.loads((with_wheel / "tmp/out.jsonl").read_text())
    assert "Paris" in json.dumps(result), result
    told = inside(with_wheel, "/tmp/millrace-venv/bin/python", "-I", "-c", NOTEBOOK)
    assert "Paris" in told.stdout, told
