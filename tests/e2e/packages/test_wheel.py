"""The Python wheel with the programs in a root that has Python and nothing else: the wheel and its
two dependencies run a model there, once the machine has the driver that the command asks for."""
import json
import re
import shutil
import subprocess
import sys

import pytest
from roots import inside, make_root
from staged import BIN, ROOT, model_path

pytestmark = pytest.mark.long
MILLRACE = "/opt/venv/bin/millrace"
RUN = [MILLRACE, "run", "--model", "/opt/M.gguf", "--input", "in.jsonl", "--output", "out.jsonl"]
NOTEBOOK = """
import millrace
with millrace.run("/opt/M.gguf") as local:
    print(local.generate("The capital of France is", max_tokens=8, temperature=0).text)
"""


def fetch_wheels(root):
    """The wheel and what pip finds that it needs. They come from outside, so that the root needs
    neither a network of pip's nor certificates. Gives the name of the wheel."""
    folder = root / "wheels"
    tool = ROOT / "client" / "python" / "tools" / "build_wheel.py"
    built = subprocess.run([sys.executable, tool, BIN, folder], check=True, text=True,
                           capture_output=True).stdout.strip()
    python = inside(root, "python3", "--version").stdout.split()[1]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:",
                    f"--python-version={python}", "-d", folder, built], check=True)
    return built.rpartition("/")[2]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("roots") / "python", "python3-venv")
    name = fetch_wheels(folder)
    inside(folder, "python3", "-m", "venv", "/opt/venv")
    inside(folder, "/opt/venv/bin/pip", "install", "-q", "--no-index", "--find-links=/wheels",
           f"/wheels/{name}")
    shutil.copy(model_path(), folder / "opt/M.gguf")
    (folder / "tmp/in.jsonl").write_text(
        '{"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}\n')
    return folder


def test_the_command_is_there_and_its_version_is_the_one_of_the_wheel(root):
    wheel, = (path.name for path in (root / "wheels").glob("millrace-*.whl"))
    name, number = inside(root, MILLRACE, "--version").stdout.split()
    assert wheel.startswith(f"{name}-{number}-py3-"), wheel


def test_the_programs_find_all_their_libraries_in_the_wheel_or_beside_python(root):
    package, = root.glob("opt/venv/lib/python3*/site-packages/millrace")
    libraries = "/" + str((package / "lib").relative_to(root))
    for program in (package / "bin").iterdir():
        told = inside(root, "ldd", "/" + str(program.relative_to(root)), LD_LIBRARY_PATH=libraries)
        assert "not found" not in told.stdout, told.stdout


def test_without_a_driver_the_command_names_a_package_that_makes_it_run(root):
    """The only thing that the wheel leaves to the machine is the driver of the device."""
    done = inside(root, *RUN, folder="/tmp", check=False)
    assert done.returncode == 3 and "no_device" in done.stderr, done
    package = re.search(r"`apt install (\S+)`", done.stderr)[1]
    inside(root, "apt-get", "update", "-qq")
    inside(root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
    inside(root, *RUN, folder="/tmp")
    result = json.loads((root / "tmp/out.jsonl").read_text())
    assert "Paris" in json.dumps(result), result
    told = inside(root, "/opt/venv/bin/python", "-I", "-c", NOTEBOOK)
    assert "Paris" in told.stdout, told
