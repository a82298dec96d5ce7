"""Tests the scripts that purge the Debian packages, in a folder that stands for the root: what
other packages use, and backups, stay."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
LEDGER = ["var/lib/millrace/ledger/ledger.sqlite", "var/lib/millrace/ledger/bodies/1"]
CACHE, KEY = "var/cache/millrace/kernel", "etc/millrace/keys/broker.key"
ENGINE = "etc/millrace/engines/small.env"
BACKUPS = ["var/lib/millrace/ledger/backups/monday/ledger.sqlite",
           "var/lib/millrace/backups/monday/ledger.sqlite"]


class Root:
    """A folder with files, and programs that note what they were asked to do."""

    def __init__(self, folder):
        self.folder, self.programs = folder / "root", folder / "programs"
        self.programs.mkdir()
        for name in ("deb-systemd-helper", "systemctl"):
            self.program(name, ":")
        self.program("deluser", f'echo "$@" > {folder}/removed-user')
        self.removed_user = folder / "removed-user"

    def program(self, name, does):
        (self.programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (self.programs / name).chmod(0o755)

    def add(self, *names):
        for name in names:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("whole")

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
                      if path.is_file())

    def purge(self, package, other):
        """`other` is what dpkg says of the other package; nothing: it knows none of that name."""
        self.program("dpkg-query", f"printf %s '{other}'" if other else "exit 1")
        script = (ROOT / "ops/debian" / package / "postrm").read_text()
        script, places = re.subn(r"/(?=(var|etc|usr|run)/)", f"{self.folder}/", script)
        assert places > 3
        done = subprocess.run(
            ["sh", "-c", script, "postrm", "purge"], text=True, capture_output=True,
            env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"})
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def root(tmp_path):
    return Root(tmp_path)


@pytest.mark.parametrize("other", ["", "not-installed"])
def test_purging_the_broker_alone_leaves_nothing(root, other):
    root.add(*LEDGER, KEY)
    (root.folder / "var/lib/millrace/ledger/backups").mkdir()
    assert root.purge("broker", other) == ""
    assert not (root.folder / "var/lib/millrace").exists()
    assert not (root.folder / "etc/millrace").exists()
    assert root.removed_user.exists()


def test_a_ledger_that_is_a_file_goes_too(root):
    root.add("var/lib/millrace/ledger")
    root.purge("broker", "")
    assert root.files() == []


def test_backups_stay_with_their_user(root):
    root.add(*LEDGER, *BACKUPS, KEY)
    said = root.purge("broker", "")
    assert root.files() == sorted(BACKUPS)
    assert said.count("backups stay: remove them yourself") == 2
    assert not root.removed_user.exists()
    root.purge("engine", "")
    assert root.files() == sorted(BACKUPS) and not root.removed_user.exists()


@pytest.mark.parametrize("other", ["installed", "config-files"])
def test_an_engine_keeps_its_key_its_cache_and_the_user(root, other):
    root.add(*LEDGER, KEY, CACHE, ENGINE)
    root.purge("broker", other)
    assert root.files() == sorted([KEY, CACHE, ENGINE]) and not root.removed_user.exists()
    root.purge("engine", "not-installed")
    assert root.files() == [] and root.removed_user.exists()


def test_a_cache_that_stays_keeps_its_user(root):
    root.add(*LEDGER, CACHE)
    root.purge("broker", "")
    assert root.files() == [CACHE] and not root.removed_user.exists()


@pytest.mark.parametrize("other", ["installed", "config-files"])
def test_a_broker_keeps_its_ledger_its_keys_and_the_user(root, other):
    root.add(*LEDGER, KEY, CACHE, ENGINE)
    root.purge("engine", other)
    assert root.files() == sorted([*LEDGER, KEY]) and not root.removed_user.exists()
