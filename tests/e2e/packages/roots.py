"""Fresh Debian roots, and commands inside of them. Needs root and the package mmdebstrap."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from patience import PATIENCE_S

# Where this machine's own apt finds Debian.
SOURCES = [path for path in map(pathlib.Path, ("/etc/apt/sources.list.d/debian.sources",
                                               "/etc/apt/sources.list")) if path.exists()]
# In a mount namespace of its own, so that nothing stays mounted.
ENTER = """set -e
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount --rbind /proc "$1/proc"
root=$1 user=$2 folder=$3
shift 3
while [ "$1" != -- ]; do
  mount --bind "$1" "$root$2"
  shift 2
done
shift
exec chroot --userspec="$user" "$root" /usr/bin/env -C "$folder" "$@"
"""


def need_root():
    if os.getuid() != 0:
        pytest.skip("making a Debian root needs root")


def make_root(folder, *packages):
    """The smallest bookworm, with some packages more."""
    need_root()
    include = [f"--include={','.join(packages)}"] if packages else []
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *include, "bookworm", folder,
                    SOURCES[0]], check=True)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    # As in Debian's container images: a root that is thrown away needs no sync of each file.
    (folder / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    return folder


def command(root, *words, user="0:0", folder="/", shared=None, **variables):
    """The words that run a command inside of a root, and its environment. The process that they
    start becomes the command. `shared` has folders of this machine, by what they are inside."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8",
           "DEBIAN_FRONTEND": "noninteractive", **variables}
    mounts = [word for place, ours in (shared or {}).items() for word in (ours, place)]
    words = ["unshare", "--mount", "bash", "-c", ENTER, "bash", root, user, folder, *mounts, "--",
             *words]
    return {"args": [str(word) for word in words], "env": env}


def inside(root, *words, check=True, **settings):
    """Runs a command inside of a root and gives what it printed. What it started ends with it."""
    started = command(root, *words, **settings)
    started["args"] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                       *started["args"]]
    done = subprocess.run(**started, text=True, capture_output=True)
    assert done.returncode == 0 or not check, f"{words}: {done.stdout}{done.stderr}"
    return done


class Machine:
    """A root that runs as a machine of its own, with systemd as its first process."""

    def __init__(self, root, log):
        self.log = log
        self.container = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe",
             "--directory", root, "/lib/systemd/systemd", "--log-target=console"],
            stdin=subprocess.DEVNULL, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        self.first = None

    def find_first(self):
        """The number of the container's first process, which is the child of systemd-nspawn."""
        of = f"/proc/{self.container.pid}/task/{self.container.pid}/children"
        end = time.monotonic() + PATIENCE_S
        while self.first is None:
            if self.container.poll() is not None:
                pytest.skip(f"systemd-nspawn starts no container here: {self.log.read_text()}")
            assert time.monotonic() < end, self.log.read_text()
            children = pathlib.Path(of).read_text().split()
            if children and os.path.exists(f"/proc/{children[0]}/root/run/systemd/private"):
                self.first = children[0]
            time.sleep(0.05)

    def run(self, *words, check=True, **variables):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", **variables}
        done = subprocess.run(
            ["nsenter", f"--target={self.first}", "--mount", "--pid", "--ipc", "--uts",
             f"--root=/proc/{self.first}/root", *words], env=env, text=True, capture_output=True)
        assert done.returncode == 0 or not check, (
            f"{words}: {done.stdout}{done.stderr}\n{self.log.read_text()}")
        return done.stdout

    def close(self):
        self.container.terminate()  # the container is halted
        try:
            self.container.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.container.kill()
            self.container.wait()
