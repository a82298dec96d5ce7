#!/usr/bin/env python3
"""Builds a wheel that holds the programs, so that `pip install` of it alone can `millrace run`.

    client/python/tools/build_wheel.py BIN OUT      BIN: build/bin; OUT: the folder for the wheel

The wheel has the package, stripped copies of millrace, millrace-broker and millrace-engine in
millrace/bin, the shared libraries that these need in millrace/lib with the notices of their Debian
packages, and a command `millrace`. It leaves to the machine the C and C++ libraries, which must be
of this version or a later one, and the OpenCL driver. Needs pip, binutils, ldd and dpkg-query.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("millrace", "millrace-broker", "millrace-engine")
# Of the machine: its C and C++ libraries, which its OpenCL driver uses, too.
LEFT_OUT = re.compile(r"^(ld-linux.*|linux-vdso|libc|libm|libpthread|libdl|librt|libresolv"
                      r"|libstdc\+\+|libgcc_s)\.so")
SCRIPT = '\n[project.scripts]\nmillrace = "millrace._program:main"\n'
SETUP = """
import setuptools
from setuptools.dist import Distribution

class Programs(Distribution):
    def has_ext_modules(self):  # the wheel is for this kind of machine
        return True

setuptools.setup(distclass=Programs)
"""


def libraries(program):
    """The shared libraries that a program needs, by the names under which it asks for them."""
    told = subprocess.run(["ldd", program], check=True, text=True, capture_output=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", told, re.M))
    if "not found" in told:
        sys.exit(f"{program} lacks libraries:\n{told}")
    return {name: path for name, path in found.items() if not LEFT_OUT.match(name)}


def notice(path):
    """The copyright file of the Debian package that a library is from."""
    for one in {path, os.path.realpath(path), path.removeprefix("/usr"), "/usr" + path}:
        owner = subprocess.run(["dpkg-query", "-S", one], text=True, capture_output=True)
        if owner.returncode == 0:
            package = owner.stdout.split(":")[0]
            return package, pathlib.Path("/usr/share/doc") / package / "copyright"
    sys.exit(f"no Debian package has {path}, so that its notice is unknown")


def fill(package, programs):
    """Puts programs, libraries and notices into the package's folder."""
    for name in ("bin", "lib", "lib/notices"):
        (package / name).mkdir()
    needed = {}
    for name in PROGRAMS:
        copy = package / "bin" / name
        shutil.copy(programs / name, copy)
        needed.update(libraries(copy))
        subprocess.run(["strip", copy], check=True)
    for name, path in needed.items():
        shutil.copy(os.path.realpath(path), package / "lib" / name)
        owner, text = notice(path)
        shutil.copy(text, package / "lib" / "notices" / owner)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    programs, out = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder) / "python"
        shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("build", "*.egg-info"))
        fill(project / "src" / "millrace", programs)
        text = (project / "pyproject.toml").read_text(encoding="utf-8")
        text = text.replace('["py.typed"]', '["py.typed", "bin/*", "lib/*", "lib/notices/*"]')
        (project / "pyproject.toml").write_text(text + SCRIPT, encoding="utf-8")
        (project / "setup.py").write_text(SETUP, encoding="utf-8")
        subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder,
                        project], check=True)
        built = next(pathlib.Path(folder).glob("*.whl"))
        # Nothing in it depends on the version of Python.
        name = "-".join([*built.name.split("-")[:2], "py3", "none",
                         f"linux_{platform.machine()}.whl"])
        out.mkdir(parents=True, exist_ok=True)
        shutil.move(retag(built, name), out / name)
        print(out / name)


def retag(wheel, name):
    """Says in the wheel, too, that it is for any version of Python 3."""
    folder = wheel.parent / "unpacked"
    shutil.unpack_archive(wheel, folder, "zip")
    info = next(folder.glob("*.dist-info"))
    text = (info / "WHEEL").read_text(encoding="utf-8")
    tag = name.removesuffix(".whl").split("-", 2)[2]
    (info / "WHEEL").write_text(re.sub(r"^Tag: .*$", f"Tag: {tag}", text, flags=re.M),
                                encoding="utf-8")
    return repack(folder, info, wheel.parent / name)


def repack(folder, info, path):
    """A wheel is an archive with a list of its files and their digests."""
    record = info / "RECORD"
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_dir() or file == record:
                continue
            if file.parent.name == "bin":
                file.chmod(0o755)  # unpacking lost it
            name, data = str(file.relative_to(folder)), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            archive.write(file, name)
        rows.append(f"{record.relative_to(folder)},,")
        archive.writestr(str(record.relative_to(folder)), "\n".join(rows) + "\n")
    return path


if __name__ == "__main__":
    main()
