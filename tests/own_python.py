"""Python environments for examples that need more packages than the other tests."""
import os
import pathlib
import subprocess

from client_place import ROOT

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def own_python(name):
    """The Python of an environment in the cache folder with the packages that the requirements.txt
    in the folder NAME beside this file lists. It is made once."""
    folder = CACHE / "millrace" / "examples" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    requirements = pathlib.Path(__file__).resolve().parent / name / "requirements.txt"
    subprocess.run(["bash", "-c", 'set -e; . "$0"; ensure_venv "$1" "$2"',
                    ROOT / "ops" / "lib" / "common.sh", folder, requirements], check=True)
    return folder / "bin" / "python"
