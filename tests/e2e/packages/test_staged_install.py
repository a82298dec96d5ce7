"""`cmake --install` puts each component where it belongs, and the programs work from there."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from staged import BIN, ROOT, install, model_path

PROGRAMS = {"broker": "millrace-broker", "engine": "millrace-engine", "cli": "millrace"}


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("usr")
    install(folder)
    return folder


@pytest.mark.parametrize("component", PROGRAMS)
def test_a_component_has_its_program_and_what_belongs_to_it(component, tmp_path):
    install(tmp_path, "--component", component)
    program = PROGRAMS[component]
    found = files_of(tmp_path)
    assert found >= {f"bin/{program}", f"share/man/man1/{program}.1",
                     f"share/bash-completion/completions/{program}",
                     f"share/zsh/vendor-completions/_{program}",
                     f"share/fish/vendor_completions.d/{program}.fish",
                     f"share/doc/millrace-{component}/LICENSE",
                     f"share/doc/millrace-{component}/CHANGELOG.md"}
    assert [name for name in found if name.startswith("bin/")] == [f"bin/{program}"]
    assert ("share/man/man1/millrace-run.1" in found) == (component == "cli")


def test_the_components_share_no_file(tmp_path):
    seen = {}
    for component in (*PROGRAMS, "python"):
        install(tmp_path / component, "--component", component)
        for name in files_of(tmp_path / component):
            assert name not in seen, (name, component, seen[name])
            seen[name] = component
    install(tmp_path / "all")
    assert files_of(tmp_path / "all") == set(seen)


def test_the_list_of_installed_files_is_complete(tmp_path):
    """The commands of INSTALL.md that uninstall remove what it lists."""
    guide = (ROOT / "ops/INSTALL.md").read_text(encoding="utf-8")
    assert "install_manifest.txt" in guide and "install_manifest_broker.txt" in guide
    for options in ((), ("--component", "broker")):
        folder = tmp_path / "-".join(("all", *options))
        listed = install(folder, *options)
        assert {os.path.relpath(path, folder) for path in listed} == files_of(folder)


def test_texts_name_no_folder_of_the_one_who_built_them(staged):
    """Defaults that depend on the user are shown by the variable that they come from."""
    told = (staged / "share/man/man1/millrace-broker.1").read_text()
    assert "[ipc://$XDG_RUNTIME_DIR/millrace/clients]" in told
    for path in staged.rglob("*"):
        if path.is_file() and path.parent.name != "bin":
            text = path.read_text()
            assert str(ROOT) not in text and f"/tmp/millrace-{os.getuid()}" not in text, path


def test_the_programs_need_no_file_of_the_sources(staged):
    for program in PROGRAMS.values():
        text = (staged / "bin" / program).read_bytes()
        assert str(ROOT / "kernels").encode() not in text
        told = subprocess.run(["readelf", "-d", staged / "bin" / program], check=True, text=True,
                              capture_output=True).stdout
        assert "RUNPATH" not in told and "RPATH" not in told, program


def test_a_job_runs_from_the_staging_folder(staged, tmp_path):
    """In a folder of its own, with the programs of the staging folder alone."""
    (tmp_path / "in.jsonl").write_text(
        '{"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}\n')
    done = subprocess.run(
        [staged / "bin" / "millrace", "run", "--model", model_path(), "--input", "in.jsonl",
         "--output", "out.jsonl"], cwd=tmp_path, text=True, capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": ""})
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.jsonl").read_text())
    assert "Paris" in json.dumps(result)


def test_python_finds_the_package_and_its_version(staged):
    program = ("import importlib.metadata, millrace; print(millrace.__file__, "
               "millrace.__version__, importlib.metadata.version('millrace'))")
    done = subprocess.run([sys.executable, "-c", program], check=True, text=True,
                          capture_output=True,
                          env={"PYTHONPATH": str(staged / "lib/python3/dist-packages"),
                               "PYTHONDONTWRITEBYTECODE": "1"})
    place, own, told = done.stdout.split()
    assert place.startswith(str(staged)) and own == told


def test_every_version_is_the_one_of_the_project(staged):
    """CMakeLists.txt names it; programs, package, its metadata and the list of changes follow."""
    wanted = re.search(r"^project\(millrace VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                       re.MULTILINE)[1]
    said = {}
    for name in PROGRAMS.values():
        said[name] = subprocess.run([BIN / name, "--version"], check=True, text=True,
                                    capture_output=True).stdout.split()[1]
    project = ROOT / "client" / "python"
    said["package"] = re.search(r'^__version__ = "(.+)"',
                                (project / "src/millrace/__init__.py").read_text(), re.M)[1]
    assert 'attr = "millrace.__version__"' in (project / "pyproject.toml").read_text()
    metadata = next((staged / "lib/python3/dist-packages").glob("*.dist-info")) / "METADATA"
    said["metadata"] = re.search(r"^Version: (.+)$", metadata.read_text(), re.M)[1]
    said["changes"] = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert said == dict.fromkeys(said, wanted)


def test_bash_loads_the_installed_completion(staged):
    words = ("source /usr/share/bash-completion/bash_completion; "
             "_completion_loader millrace; complete -p millrace")
    if not shutil.which("bash") or not os.path.exists("/usr/share/bash-completion"):
        pytest.skip("the package bash-completion is not installed")
    done = subprocess.run(["bash", "-c", words], text=True, capture_output=True,
                          env={"PATH": "/usr/bin:/bin", "XDG_DATA_DIRS": str(staged / "share"),
                               "HOME": str(staged)})
    assert done.stdout == "complete -F _millrace millrace\n", done.stderr
