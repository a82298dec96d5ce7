"""Tests ops/package with programs that only pretend to build: what it leaves in its folder."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = {
    "dpkg-query": "echo install ok installed",
    "cmake": ":",
    # cpack -G DEB -B FOLDER
    "cpack": 'touch "$4/millrace-cli_2_amd64.deb" && mkdir "$4/_CPack_Packages"',
}


def package(tmp_path, folder):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, does in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "build").mkdir()
    done = subprocess.run(
        [ROOT / "ops/package", "--deb", folder], capture_output=True, text=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
             "MILLRACE_BUILD": str(tmp_path / "build")})
    assert done.returncode == 0, done.stderr


def test_a_folder_keeps_what_is_not_ours(tmp_path):
    folder = tmp_path / "with space"
    (folder / "deep").mkdir(parents=True)
    kept = ["letter.txt", "deep/letter.txt", "hello_2.10-3_amd64.deb", "numpy-2.0-py3-none-any.whl"]
    old = ["millrace-cli_1_amd64.deb", "python3-millrace_1_all.deb", "millrace-1-py3-none-any.whl"]
    for name in kept + old:
        (folder / name).write_text("whole")
    package(tmp_path, folder)
    left = sorted(str(x.relative_to(folder)) for x in folder.rglob("*") if x.is_file())
    assert left == sorted([*kept, "millrace-cli_2_amd64.deb"])
    assert not (folder / "_CPack_Packages").exists()


def test_a_new_folder_is_made(tmp_path):
    package(tmp_path, tmp_path / "new" / "folder")
    assert (tmp_path / "new/folder/millrace-cli_2_amd64.deb").exists()
