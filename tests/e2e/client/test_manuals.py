"""The manual pages that the programs write: a page for each command, with what --help says."""
import re
import subprocess

import pytest
from programs import program
from test_help import commands, options, shown

PROGRAMS = ("millrace", "millrace-broker", "millrace-engine")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manuals")
    for name in PROGRAMS:
        subprocess.run([program(name), "--write-manuals", folder], check=True)
    return folder


def shown_page(path):
    """The page as a terminal of 80 columns shows it, without overstriking; what it warns of."""
    done = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8",
                               "MAN_KEEP_FORMATTING": ""}, check=True)
    return re.sub(".\x08", "", done.stdout), done.stderr


def test_each_program_and_command_has_a_page(pages):
    wanted = {*PROGRAMS, *(f"millrace-{command}" for command in commands())}
    assert {path.stem for path in pages.iterdir()} == wanted


def test_each_page_says_what_help_says(pages):
    for path in sorted(pages.iterdir()):
        words = [path.stem] if path.stem in PROGRAMS else path.stem.split("-", 1)
        text, warnings = shown_page(path)
        assert warnings == "", path.stem
        text = " ".join(text.replace("\N{HYPHEN}", "-").split())
        assert f"SYNOPSIS {' '.join(words)} " in text, path.stem
        for name, told in options(shown(*words, "--help")).items():
            assert name in text and " ".join(told) in text, (path.stem, name)


def test_a_group_of_commands_has_a_section_for_each(pages):
    text, _ = shown_page(pages / "millrace-jobs.1")
    for name in ("ls", "show", "drop"):
        assert re.search(rf"^ +millrace jobs {name}$", text, re.MULTILINE), name
    assert "--state STATE" in text


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    done = subprocess.run([program("millrace"), "--write-manuals", tmp_path / "none"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "millrace.1 cannot be written" in done.stderr
