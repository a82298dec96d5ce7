"""Packages of PyPI that tests need beside their own, kept in a cache folder."""
import fcntl
import hashlib
import shutil
import subprocess
import sys


class Absent(Exception):
    """Something cannot be had on this machine; the text says what and why."""


def installed(requirements, cache, name=""):
    """Returns the folder in `cache` with what the file of requirements lists, and nothing else.

    Folders and locks of one cache begin with `name`.
    """
    folder = cache / f"{name}{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                 "--no-deps", "--no-compile", "--target", str(part), "-r", str(requirements)],
                capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Absent(f"pip install: {done.stderr.strip()[-2000:]}")
            part.rename(folder)
    return folder
