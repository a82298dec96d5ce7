"""Reads a container file, and walks its steps in Debian roots in place of images."""
import fnmatch
import json
import re
import shlex
import shutil
import subprocess

from own_python import CACHE
from roots import inside, make_root
from staged import ROOT

FOLDER = ROOT / "ops" / "container"
FILE = FOLDER / "Containerfile"
BASE_IMAGE = "docker.io/library/debian:bookworm-slim"  # make_root() stands for it
# Steps find what earlier runs have compiled of the same text by the same compiler.
COMPILED = CACHE / "millrace" / "packages" / "ccache"


def stages():
    """The stages of the file in their order: name, base, and the steps as (instruction, text)."""
    text = re.sub(r"\\\n\s*", "", FILE.read_text(encoding="utf-8"))
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, rest = line.split(" ", 1)
        if instruction == "FROM":
            base, name = re.fullmatch(r"(\S+) AS (\S+)", rest).groups()
            found.append((name, base, []))
        else:
            found[-1][2].append((instruction, rest))
    return found


def ignored():
    lines = (FOLDER / "Containerfile.dockerignore").read_text(encoding="utf-8").split()
    return [line.removeprefix("**/") for line in lines]


def context():
    """The files that a build gets to see: those of git and new ones, without the ignored."""
    told = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          cwd=ROOT, check=True, text=True, capture_output=True).stdout
    return [name for name in told.split("\0") if name and (ROOT / name).exists()
            and not any(fnmatch.fnmatch(part, pattern) for pattern in ignored()
                        for part in name.split("/"))]


class Image:
    """What the steps so far have made: a root, and how a command runs in it."""

    def __init__(self, root, settings):
        self.root = root
        self.variables = dict(settings.variables) if settings else {}
        self.user = settings.user if settings else "root"
        self.folder = settings.folder if settings else "/"
        self.entry = list(settings.entry) if settings else []
        self.volumes = list(settings.volumes) if settings else []

    def ids(self):
        if self.user == "root":
            return "0:0"
        return ":".join(inside(self.root, "id", flag, self.user).stdout.strip()
                        for flag in ("-u", "-g"))

    def path(self, name):
        return self.root / (name if name.startswith("/") else f"{self.folder}/{name}").lstrip("/")

    def copy(self, words, images):
        *options, what, where = words
        for option in options:
            source = images[option.removeprefix("--from=")].root / what.lstrip("/")
            shutil.copytree(source, self.path(where), dirs_exist_ok=True)
            return
        for name in context():
            if what == "." or name == what or name.startswith(what + "/"):
                inner = name if what == "." else name[len(what):].lstrip("/")
                target = self.path(where) / inner if inner else self.path(where)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)

    def step(self, instruction, text, images):
        if instruction == "RUN":
            inside(self.root, "sh", "-c", text, user=self.ids(), folder=self.folder,
                   shared={"/var/local": COMPILED}, CCACHE_DIR="/var/local", **self.variables)
        elif instruction == "COPY":
            self.copy(shlex.split(text), images)
        elif instruction == "ENV":
            self.variables.update([text.split("=", 1)])
        elif instruction == "WORKDIR":
            self.folder = text
            self.path(text).mkdir(parents=True, exist_ok=True)
        elif instruction == "USER":
            self.user = text
        elif instruction == "ENTRYPOINT":
            self.entry = json.loads(text)
        elif instruction == "VOLUME":
            self.volumes.append(text)
        else:
            assert instruction == "CMD", instruction


def walk(folder, *names, **images):
    """Walks these stages. Images of other stages that they need are given; gives all by name."""
    COMPILED.mkdir(parents=True, exist_ok=True)
    for name, base, steps in stages():
        if name not in names:
            continue
        root = folder / name
        if base == BASE_IMAGE:
            make_root(root)
        else:
            subprocess.run(["cp", "-a", images[base].root, root], check=True)
        image = images[name] = Image(root, images.get(base))
        for instruction, text in steps:
            image.step(instruction, text, images)
    return images
