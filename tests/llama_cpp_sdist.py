"""Files of the sdist of PyPI `llama-cpp-python`, which holds llama.cpp's vocabularies and the chat
templates of real models. Of its 77 MB only the files that tests ask for are kept."""
import fcntl
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
NAME = "llama-cpp-python==0.3.36"


def folder_with(kind, wanted, complete):
    """Returns the folder that keeps the files of one kind. Unless `complete` holds for it, it first
    takes in those for whose path in the sdist `wanted` holds."""
    folder = CACHE / "millrace" / kind / NAME.replace("==", "-")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete(folder):
            _fetch(folder, wanted)
    return folder


def _fetch(folder, wanted):
    """pip downloads the sdist by name; its build backend only states the metadata and compiles
    nothing."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        result = subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
             "-d", temporary, NAME], capture_output=True, text=True)
        assert result.returncode == 0, f"pip could not download {NAME}: {result.stderr[-2000:]}"
        archive = next(pathlib.Path(temporary).glob("*.tar.gz"))
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if wanted(path) and not (folder / path.name).exists():
                    part = pathlib.Path(temporary) / path.name
                    part.write_bytes(tar.extractfile(member).read())
                    part.rename(folder / path.name)
