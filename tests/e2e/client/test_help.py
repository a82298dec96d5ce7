"""`--help` of each program and command fits two screens, with one or two lines per option."""
import re
import subprocess

import pytest
from patience import PATIENCE_S
from programs import program

MOST_LINES = 48  # two screens of 24
MOST_LINES_OF_ALL = 60  # of the list of commands, which has a line for each
MOST_COLUMNS = 80
MOST_TEXT = 110  # characters of an option's text, with its default
MOST_TEXT_LINES = 2


def shown(*words):
    done = subprocess.run([program(words[0]), *words[1:]], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), words
    return done.stdout.splitlines()


def commands():
    lines = shown("millrace", "--help")
    first = lines.index("Commands:") + 1
    return [line.split()[0] for line in lines[first:lines.index("", first)]
            if not line.startswith(" " * 3)]  # a text that goes on


def options(lines):
    """Returns the name of each option and argument, and the lines of its text."""
    found, group = {}, None
    for line in lines:
        if re.fullmatch(r"(?!Example)[A-Z]\w+:", line):
            group = line
        elif line == "":
            group = None
        elif group and line.startswith(" " * 8):  # the text goes on
            found[name].append(line.strip())
        elif group:
            name, text = re.fullmatch(r"  (\S+(?: \S+)*)(?:  +(\S.*))?", line).groups()
            found[name] = [text] if text else []
    return found


EVERY = [("millrace-engine",), ("millrace-broker",), ("millrace",),
         *(("millrace", command) for command in commands())]


def test_the_list_of_commands_has_a_line_for_each():
    assert len(commands()) == 35


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_fits_two_screens_and_each_option_two_lines(words):
    lines = shown(*words, "--help")
    assert len(lines) <= (MOST_LINES_OF_ALL if words == ("millrace",) else MOST_LINES)
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []
    assert [line for line in lines if line != line.rstrip()] == []
    found = options(lines)
    assert "-h, --help" in found and len(found) >= 3
    for name, text in found.items():
        assert 1 <= len(text) <= MOST_TEXT_LINES, name
        assert len(" ".join(text)) <= MOST_TEXT, name


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_all_says_what_help_says_and_more(words):
    lines = shown(*words, "--help-all")
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []
    at_length = " ".join(" ".join(lines).split())
    for name, text in options(shown(*words, "--help")).items():
        assert f"{name} {' '.join(text)}" in at_length


def test_help_all_holds_what_does_not_fit():
    engine = " ".join(" ".join(shown("millrace-engine", "--help-all")).split())
    run = " ".join(" ".join(shown("millrace", "run", "--help-all")).split())
    for text in ("k5v3: 3.8x smaller", "give keys more bits", "whose keys have outliers",
                 "Allowed: [1 - 86400]"):
        assert text in engine and text in run, text
    every = shown("millrace", "--help-all")
    assert sum(line.startswith("Usage: millrace ") for line in every) == 36


@pytest.mark.parametrize("words", [("millrace-broker",), ("millrace", "serve")], ids=" ".join)
def test_rare_options_stand_in_help_all_alone(words):
    for name in ("--http-cert FILE", "--http-allow-origin URLS"):
        assert not [line for line in shown(*words, "--help") if line.startswith("  " + name)]
        found, = [line for line in shown(*words, "--help-all") if line.startswith("  " + name)]
        assert len(found.split()) > 4, found


def test_the_example_of_a_job_has_the_form_of_an_id():
    text = "\n".join(shown("millrace", "jobs", "--help"))
    assert re.search(r"millrace jobs show \S+-[0-9a-f]{8}/\d+-[0-9a-f]{16}$", text, re.MULTILINE)
