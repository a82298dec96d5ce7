"""The container file: what it names exists, and its steps, walked in Debian roots, give packages
and images whose programs run a job."""
import re
import shutil
import subprocess

import pytest
from container_file import BASE_IMAGE, FOLDER, Image, context, stages, walk
from patience import PATIENCE_S
from roots import command, inside, need_root
from staged import ROOT, model_path

TARGETS = ["broker", "engine", "engine-nvidia"]


def test_each_stage_stands_on_debian_or_on_an_earlier_one():
    known = [BASE_IMAGE]
    for name, base, _ in stages():
        assert base in known, name
        known.append(name)
    assert set(TARGETS) < set(known)


def test_what_is_copied_exists():
    names = context()
    for name, _, steps in stages():
        for instruction, text in steps:
            if instruction == "COPY" and "--from=" not in text:
                what = text.split()[0]
                assert what == "." or any(one == what or one.startswith(what + "/")
                                          for one in names), (name, text)
    assert "CMakeLists.txt" in names and not [one for one in names if one.startswith("build/")]


def test_the_readme_builds_each_target():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"--target (\S+) ", text) == TARGETS


def test_images_run_as_a_user_and_start_what_exists():
    for name, _, steps in stages():
        if name in TARGETS:
            assert [text for step, text in steps if step == "USER"][-1] == "millrace"
            for step, text in steps:
                assert step != "ENTRYPOINT" or "millrace-" in text


def packages(folder):
    """The packages in a folder, and what they depend on."""
    return {path.name: subprocess.run(["dpkg-deb", "--field", path, "Depends"], check=True,
                                      text=True, capture_output=True).stdout
            for path in folder.iterdir()}


@pytest.fixture
def built(tmp_path):
    """What stands for the image of the stage `build`: a folder with the packages of this build."""
    subprocess.run([ROOT / "ops" / "package", "--deb", tmp_path / "built/packages"], check=True)
    return Image(tmp_path / "built", None)


@pytest.mark.long
def test_the_steps_of_the_build_make_the_packages(tmp_path, built):
    """It compiles everything, which takes long the first time."""
    need_root()
    images = walk(tmp_path, "build")
    made = packages(images["build"].root / "packages")
    assert len(made) == 4 and made == packages(built.root / "packages")
    for program in ("millrace", "millrace-broker", "millrace-engine"):
        assert program in inside(images["build"].root, f"/build/bin/{program}", "--version").stdout


@pytest.mark.long
def test_the_steps_after_the_build_give_images_that_run_a_job(tmp_path, built):
    """Of its own packages: the stage `build` makes the same, with the compiler of the root."""
    need_root()
    images = walk(tmp_path, *(name for name, _, _ in stages() if name != "build"), build=built)
    for target in TARGETS:
        image = images[target]
        told = inside(image.root, image.entry[0], "--version", user=image.ids(), **image.variables)
        assert image.entry[0] in told.stdout
        assert not (image.root / "packages").exists()
    assert "libnvidia-opencl" in (images["engine-nvidia"].root
                                  / "etc/OpenCL/vendors/nvidia.icd").read_text()
    run_a_job(images["broker"], images["engine"])


def run_a_job(broker, engine):
    """The sockets are in a folder that both images share, which is the broker's at first."""
    shared = {"/run/millrace": broker.root / "run/millrace"}
    (engine.root / "run/millrace").mkdir()
    shutil.copy(model_path(), engine.root / "opt/M.gguf")
    assert broker.ids() == engine.ids()
    started = []
    try:
        for image, words, mark in ((broker, [], "ready"),
                                   (engine, ["--model", "/opt/M.gguf"], "engine ready")):
            process = subprocess.Popen(
                **command(image.root, *image.entry, *words, user=image.ids(), shared=shared,
                          **image.variables),
                text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            started.append(process)
            assert any(mark in line for line in process.stdout), process.wait()
        (broker.root / "tmp/jobs.jsonl").write_text(
            '{"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0}\n')
        done = inside(broker.root, "millrace", "submit", "/tmp/jobs.jsonl", "--wait",
                      user=broker.ids(), MILLRACE_BROKER="ipc:///run/millrace/clients")
        assert "Paris" in done.stdout
    finally:
        for process in reversed(started):
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
