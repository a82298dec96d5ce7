"""The versions of CMakeLists.txt, CHANGELOG.md and the Debian changelog agree, and each package
gets both changelogs, in the form that Debian's tools read."""
import gzip
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def project_version():
    return re.search(r"^project\(millrace VERSION (\S+)", text_of("CMakeLists.txt"), re.M)[1]


def parsed(changelog, field):
    """A field of the newest entry. The tool warns of what it cannot read."""
    done = subprocess.run(["dpkg-parsechangelog", "-l", changelog, "-S", field], check=True,
                          text=True, capture_output=True)
    assert done.stderr == "", done.stderr
    return done.stdout.strip()


def test_the_versions_agree():
    release = re.search(r"CPACK_DEBIAN_PACKAGE_RELEASE (\d+)", text_of("cmake/packages.cmake"))[1]
    assert re.search(r"^## (\S+)$", text_of("CHANGELOG.md"), re.M)[1] == project_version()
    changelog = ROOT / "ops/debian/changelog"
    assert parsed(changelog, "Version") == f"{project_version()}-{release}"
    assert parsed(changelog, "Source") == "millrace"
    contact = re.search(r'CPACK_PACKAGE_CONTACT "([^"]+)"', text_of("cmake/packages.cmake"))[1]
    assert parsed(changelog, "Maintainer") == contact


def test_packages_get_both_changelogs(tmp_path):
    for part in ("broker", "engine"):
        folder = tmp_path / part / "usr/share/doc" / f"millrace-{part}"
        folder.mkdir(parents=True)
        for name in ("LICENSE", "CHANGELOG.md"):
            (folder / name).write_text(text_of(name))
    subprocess.run(["cmake", f"-DCPACK_TEMPORARY_DIRECTORY={tmp_path}",
                    f"-DCPACK_MILLRACE_SOURCE={ROOT}", "-P", ROOT / "ops/debian/stage.cmake"],
                   check=True)
    for part in ("broker", "engine"):
        folder = tmp_path / part / "usr/share/doc" / f"millrace-{part}"
        assert sorted(path.name for path in folder.iterdir()) == [
            "changelog.Debian.gz", "changelog.gz", "copyright"]
        for name, source in (("changelog.Debian.gz", "ops/debian/changelog"),
                             ("changelog.gz", "CHANGELOG.md")):
            assert gzip.decompress((folder / name).read_bytes()).decode() == text_of(source)
