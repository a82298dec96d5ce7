"""Installs the build into staging folders, and finds what the tests of packages need."""
import fcntl
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")).resolve()
BIN = BUILD / "bin"


def model_path():
    path = os.environ.get("MILLRACE_MODEL")
    if not path:
        told = subprocess.run([ROOT / "ops" / "model"], check=True, text=True, capture_output=True)
        path = told.stdout.strip().splitlines()[-1]
    return pathlib.Path(path)


def install(folder, *options):
    """`cmake --install` into a folder. The manuals and completions are made first if need be. Gives
    what the build's list of installed files says, by which people uninstall."""
    with open(BUILD / "install.lock", "w") as lock:  # the list has one place
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["cmake", "--build", BUILD, "--target", "command_texts"], check=True,
                       capture_output=True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", folder, *options], check=True,
                       capture_output=True)
        part = f"_{options[1]}" if options else ""
        return (BUILD / f"install_manifest{part}.txt").read_text().splitlines()
