#!/usr/bin/env python3
"""Prints the tables of metrics in README.md, made from the names that the programs declare.

With --write it puts them into README.md, between their marks.
"""
import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = pathlib.Path(__file__).with_name("README.md")
SOURCES = {
    "broker": "broker/server/broker_metric_names.hpp",
    "engine": "engine/worker/engine_metric_names.hpp",
}
TEXT = r'"((?:[^"\\]|\\.)*)"'
DECLARED = re.compile(
    rf'Metric (\w+)\{{\s*{TEXT},\s*(\w+),\s*{TEXT},\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\}};')


@dataclasses.dataclass
class Metric:
    variable: str
    name: str
    kind: str
    labels: list
    about: str

    def series(self):
        """The names under which Prometheus keeps its values."""
        parts = ["_bucket", "_sum", "_count"] if self.kind == "histogram" else [""]
        return [self.name + part for part in parts]


def declared(program):
    """Returns the metrics of a program, in the order of its pages."""
    text = (ROOT / SOURCES[program]).read_text(encoding="utf-8")
    metrics = [Metric(variable, name, kind, labels.split(), "".join(re.findall(TEXT, about)))
               for variable, name, kind, labels, about in DECLARED.findall(text)]
    shown = re.findall(r"&(\w+)", text[text.index("* all[]"):])
    return sorted((m for m in metrics if m.variable in shown),
                  key=lambda m: shown.index(m.variable))


def table(program):
    rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.about} |"
            for m in declared(program)]
    return "\n".join(["| metric | kind | labels | what it tells |", "|---|---|---|---|"] + rows)


def with_tables(text):
    """Returns the text of README.md with the tables as they should be."""
    for program in SOURCES:
        begin, end = f"<!-- metrics of the {program} -->\n", f"<!-- end of the {program} -->"
        before, rest = text.split(begin)
        text = before + begin + table(program) + "\n" + end + rest.split(end, 1)[1]
    return text


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        for each in SOURCES:
            print(f"{each}\n{table(each)}\n")
