"""Python environments for tests that need other packages than the rest."""
import fcntl
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def own_python(folder):
    """The Python of an environment in the cache folder with the packages that the requirements.txt
    in FOLDER lists. It is made once, by the first of the tests that need it."""
    place = CACHE / "millrace" / folder.parent.name / folder.name
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(folder.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["bash", "-c", 'set -e; . "$0"; ensure_venv "$1" "$2"',
                        ROOT / "ops" / "lib" / "common.sh", place, folder / "requirements.txt"],
                       check=True)
    return place / "bin" / "python"
