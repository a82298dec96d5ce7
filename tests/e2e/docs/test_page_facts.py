"""What the pages name exists: options, links and their places, metrics, and the words of errors."""
import functools
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from page_run import BIN
from pages import PAGES, ROOT, blocks_of, prose_of, text_of

# Options in prose that belong to other programs.
FOREIGN = {"--prefix", "--component", "--help", "--help-all"}
PROGRAMS = ("millrace", "millrace-broker", "millrace-engine")
WORDS = re.compile(r"^[a-z][a-z-]*$")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


@functools.cache
def told(*words):
    """The help of a program or of a command, with all its options; empty if there is none."""
    done = subprocess.run([BIN / words[0], *words[1:], "--help-all"], text=True,
                          capture_output=True)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def options_of(*words):
    return {word.rstrip(",") for word in re.findall(r"(?<!\S)--?[a-zA-Z][\w-]*,?", told(*words))}


@functools.cache
def all_options():
    """The options of all programs and commands."""
    commands = re.findall(r"^  ([a-z]+) {2,}", told("millrace").split("Commands:")[1], re.M)
    assert len(commands) > 20
    return FOREIGN.union(*(options_of(program) for program in PROGRAMS),
                         *(options_of("millrace", command) for command in commands))


def commands_of(text):
    """The words of each command of ours in a text of the shell."""
    text = re.sub(r"\\\n", " ", re.sub(r"<<'?END'?\n.*?^END$", "", text, flags=re.S | re.M))
    for line in re.split(r"[\n|;&]+|\$\(", text):
        try:
            words = shlex.split(line.rstrip(")\""), comments=True)
        except ValueError:  # a quotation that spans lines
            continue
        names = [pathlib.PurePath(word).name for word in words]
        first = next((i for i, word in enumerate(words)
                      if "=" not in word and word not in ("sudo", "exec", "export")), len(words))
        if first < len(words) and names[first] in PROGRAMS:
            yield [names[first], *words[first + 1:]]


def unknown_options(words):
    command = words[:1]
    if words[0] == "millrace" and len(words) > 1 and WORDS.match(words[1]):
        command = words[:2]
    given = [word.split("=")[0] for word in words[1:] if re.match(r"--?[a-zA-Z]", word)]
    return [option for option in given if option not in options_of(*command)]


@pytest.mark.parametrize("page", PAGES)
def test_the_options_of_commands_exist(page):
    wrong = []
    for block in blocks_of(text_of(page)):
        if block.language == "sh" and block.status != 2:
            wrong += [(block.line, words[:2], unknown) for words in commands_of(block.text)
                      if (unknown := unknown_options(words))]
    for span in re.findall(r"`(millrace[^`]*)`", prose_of(text_of(page))):
        wrong += [(span, unknown) for words in commands_of(span)
                  if (unknown := unknown_options(words))]
    assert not wrong, f"{page}: {wrong}"


@pytest.mark.parametrize("page", PAGES)
def test_the_options_in_prose_exist(page):
    spans = [span for span in re.findall(r"`([^`]+)`", prose_of(text_of(page)))
             if span.startswith("--")]
    wrong = {option for span in spans for option in OPTION.findall(span)} - all_options()
    assert not wrong, f"{page}: {wrong}"


def slug(heading):
    """The place that viewers give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@functools.cache
def places_of(path):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose_of(path.read_text("utf-8")),
                                                    re.M)}


def test_every_link_leads_to_a_file_and_a_place():
    names = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, text=True,
                           capture_output=True).stdout.split()
    wrong, seen = [], 0
    for name in names:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(text_of(name))):
            if re.match(r"\w+:", link):
                continue
            seen += 1
            file, _, place = link.partition("#")
            path = pathlib.Path(os.path.normpath((ROOT / name).parent / file)) if file else (
                ROOT / name)
            if not path.exists() or (place and place not in places_of(path)):
                wrong.append(f"{name}: {link}")
    assert seen > 100 and not wrong, "\n".join(wrong)


def test_metrics_that_pages_name_exist():
    declared = set(re.findall(r"^\| `(millrace_\w+)`", text_of("ops/metrics/README.md"), re.M))
    for page in PAGES:
        named = set(re.findall(r"`(millrace_[a-z_]+)", prose_of(text_of(page))))
        assert named <= declared, f"{page}: {named - declared}"


@functools.cache
def literals():
    """The texts of all sources, with the pieces of each literal joined and markers left out."""
    texts = []
    for path in sorted(ROOT.glob("*/**/*.[ch]pp")):
        if path.relative_to(ROOT).parts[0] in ("broker", "client", "engine", "http", "schemas"):
            source = path.read_text(encoding="utf-8")
            joined = re.sub(r"\"\s*(?:\\\s*)?\n?\s*\"", "", source)
            texts += re.findall(r"\"((?:\\.|[^\"\\])*)\"", joined)
    return "\n".join(texts)


def headings_in_programs_words():
    """A heading that begins with a small letter quotes what a program says."""
    headings = re.findall(r"^### (.*)$", text_of("docs/troubleshooting.md"), re.M)
    return [heading for heading in headings if heading[0].islower()]


def test_the_words_of_errors_are_those_of_the_programs():
    blocks = blocks_of(text_of("docs/troubleshooting.md"))
    shown = "\n".join(block.prints or "" for block in blocks)
    prose = prose_of(text_of("docs/troubleshooting.md"))
    quotes = re.findall(r"`((?!millrace)[a-zA-Z]+(?: [a-zA-Z]+){2,})`", prose)
    quotes += headings_in_programs_words()
    assert len(quotes) > 15
    codes = set(re.findall(r"X\((\w+),", text_of("schemas/base/error_codes.hpp")))
    for quote in quotes:
        for piece in filter(None, re.split(r"\s*\.\.\.,?\s*", quote)):
            assert piece in shown or piece in literals() or piece in codes, (quote, piece)


@pytest.mark.parametrize("text, found", [
    ("millrace run --modle x", ["--modle"]), ("a | build/bin/millrace run -i x -o y &", []),
    ("x=$(millrace status --jsn)", ["--jsn"]), ("millrace-broker --ledger a --listen b", []),
    ("millrace batches ls -o csv", []), ("cat <<'END'\nmillrace --x\nEND\n", []),
])
def test_a_wrong_option_is_seen(text, found):
    assert [option for words in commands_of(text) for option in unknown_options(words)] == found
