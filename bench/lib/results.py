"""Keeps the figures: a page for each machine, a history with a line for each run, and raw runs.

    bench/results/MACHINE.md     the newest figures, in a section for each measure
    bench/results/HISTORY.md     date, commit, machine, what ran, what it gave
    build/results/               every run as JSON, and the pictures; not part of the repository
"""
import dataclasses
import itertools
import json
import pathlib
import re

from .run import BIN, ROOT, Failed
from .sections import TITLES

PAGES = ROOT / "bench/results"
RAW = BIN.parent / "results"
HISTORY_HEAD = """# History of the runs

One line for each run, the newest first, written by `bench/compare --save`. A ratio is our figure
over the peer's of the same run: "3.1 and 1.2" means 3.1 times llama.cpp on the same file and 1.2
times the best peer.

| date | commit | machine | what ran | what it gave |
|---|---|---|---|---|
"""


def machine_name(here):
    return f"{here['processor']}, {here['cores']} cores"


def file_name(name):
    """The name of a machine's page: the machine's name in lower case, its words joined."""
    return "-".join(re.findall("[a-z0-9]+", name.lower())) + ".md"


def page_head(here):
    return (f"# {machine_name(here)}\n\n{here['memory_gib']} GiB of memory; "
            f"{', '.join(here['features'])}. Each section has the newest figures of its measure, "
            "with the peers' of the same run. [../README.md](../README.md) explains the terms.\n")


def page_path(here):
    return PAGES / file_name(machine_name(here))


MEMORY = "The fastest memory seen: "
MEMORY_LINE = re.compile(f"^{MEMORY}(.*)$", re.MULTILINE)


def recorded_memory(here):
    """The fastest level of memory that the machine's page records, in GB/s; 0 if none."""
    page = page_path(here)
    line = MEMORY_LINE.search(page.read_text()) if page.exists() else None
    if not line:
        return 0.0
    level = re.match(r"(\d+(\.\d+)?) GB/s", line[1])
    if not level:
        raise Failed(f"{page}: '{line[0]}' has no number before ' GB/s': correct or delete the "
                     "line")
    return float(level[1])


def with_memory(page, here, fastest):
    """The page with the fastest level of memory at the end of its head."""
    line = f"{MEMORY}{fastest:.1f} GB/s, at commit {here['commit']}, {here['date']}."
    if MEMORY_LINE.search(page):
        return MEMORY_LINE.sub(line, page)
    head, _ = split(page)
    return f"{head.rstrip()}\n\n{line}\n\n{page[len(head):]}"


def split(page):
    """The head, and title -> text of each section."""
    head, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    return head, {one.split("\n", 1)[0]: "## " + one for one in sections}


def merged(page, texts):
    """The page with its sections replaced by those of `texts` (title -> Markdown), in order."""
    head, sections = split(page)
    sections |= texts
    order = [*TITLES.values(), *(title for title in sections if title not in TITLES.values())]
    return "\n\n".join([head.rstrip(), *(sections[title].rstrip() for title in order
                                         if title in sections)]) + "\n"


def cut_table(section):
    """The lines of a section down to the rule under the head of its first table, that table's rows,
    and the lines after it."""
    lines = section.splitlines()
    first = 1 + next(at for at, line in enumerate(lines) if line.startswith("|---"))
    rows = list(itertools.takewhile(lambda line: line.startswith("|"), lines[first:]))
    return lines[:first], rows, lines[first + len(rows):]


def with_rows_of(before, section):
    """A section that has some rows of its measure, with the other rows of the section before. Each
    of those says at which commit it was measured. The first cell, up to a colon, names a row."""
    def named(row):
        return row.split(" | ")[0].split(":")[0]
    head, measured, end = cut_table(section)
    new = {named(row): row for row in measured}
    origin = re.search(r"at commit [^ ,]+, [0-9-]+", before)
    rows = []
    for row in cut_table(before)[1]:
        if named(row) in new:
            rows.append(new.pop(named(row)))
        elif row.split(" | ")[1] != "failed":
            dated = "; at commit " in row
            rows.append(row if dated else f"{row.removesuffix(' |')}; {origin[0]} |")
    return "\n".join([*head, *rows, *new.values(), *end]) + "\n"


def with_line(history, line):
    """The history with one more run, right under the table's head."""
    if not history.startswith(HISTORY_HEAD):
        raise Failed(f"{PAGES / 'HISTORY.md'} does not begin with HISTORY_HEAD of "
                     "bench/lib/results.py: restore its head")
    return HISTORY_HEAD + line + "\n" + history[len(HISTORY_HEAD):]


def history_line(here, line, sections):
    headlines = [text for section in sections for text in section.headlines]
    return (f"| {here['date']} | {here['commit']} | {machine_name(here)} | `{line}` | "
            f"{'; '.join(headlines) or '-'} |")


def command(words):
    """The command that repeats the run, from the repository's root."""
    program = f"bench/{pathlib.Path(words[0]).name}"
    return " ".join([program, *(word for word in words[1:] if word != "--save")])


def origin(here, line):
    return f"`{line}` at commit {here['commit']}, {here['date']}."


def plain(value):
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    raise TypeError(f"no JSON for {type(value)}")


def save(here, line, sections, everything, draw, fastest=0.0):
    """Writes page, history and raw runs. draw(stem) writes the pictures beside stem. `fastest` is
    the run's fastest memory in GB/s. Returns the paths of the page and of the JSON file."""
    RAW.mkdir(parents=True, exist_ok=True)
    measures = "-".join(section.measure for section in sections[:3])
    stem = RAW / f"{here['date']}-{here['commit']}-{measures}"
    number = 1
    while stem.with_suffix(".json").exists():  # keeps an earlier run of the same commit
        number += 1
        stem = stem.with_name(f"{here['date']}-{here['commit']}-{measures}-{number}")
    raw = stem.with_suffix(".json")
    raw.write_text(json.dumps(everything, indent=1, default=plain) + "\n")
    draw(stem)
    page, history = page_path(here), PAGES / "HISTORY.md"
    old = page.read_text() if page.exists() else page_head(here)
    if round(fastest, 1) > recorded_memory(here):
        old = with_memory(old, here, fastest)
    _, before = split(old)
    texts = {}
    for section in sections:
        text = section.text(origin(here, line))
        old_text = before.get(section.title) if section.is_part else None
        texts[section.title] = with_rows_of(old_text, text) if old_text else text
    lines = history.read_text() if history.exists() else HISTORY_HEAD
    page.write_text(merged(old, texts))
    history.write_text(with_line(lines, history_line(here, line, sections)))
    return page, raw
