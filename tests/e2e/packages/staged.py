"""Installs the build into staging folders, and finds what the tests of packages need."""
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
    """`cmake --install` into a folder. The manuals and completions are made first if need be."""
    subprocess.run(["cmake", "--build", BUILD, "--target", "command_texts"], check=True,
                   capture_output=True)
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder, *options], check=True,
                   capture_output=True)
