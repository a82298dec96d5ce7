#!/usr/bin/env python3
"""Draws the pictures of performance.md from the tables of bench/results.

    docs/draw_plots.py           writes docs/plots/*.svg
    docs/draw_plots.py --check   fails and names the pictures that differ

A bar chart needs no more than the standard library gives, and the same figures give the same file.
"""
import pathlib
import re
import sys
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).resolve().parent
MACHINE = FOLDER.parent / "bench" / "results" / "amd-epyc-family-26-model-2-2-cores.md"
COLORS = ["#2563a8", "#d9822b", "#7a8794", "#4d9078"]
WIDTH, PLOT_HEIGHT, LEFT, TOP, BOTTOM = 720, 220, 64, 56, 56


def rows_of(section):
    """The cells of each row of a section's tables."""
    text = MACHINE.read_text(encoding="utf-8")
    part = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in part.splitlines() if line.startswith("| ")]


def figure(cell):
    """The median of a cell like "344 (286 to 357)"."""
    return float(cell.split()[0])


def generated_by_rows():
    """Groups of rows, and tokens/s of each side in them; prompts and outputs of 128 tokens."""
    sides = {"ours": "Millrace", "llama.cpp Q4_0": "llama.cpp, Q4_0",
             "OpenVINO Q4_1": "OpenVINO GenAI, Q4_1"}
    series = {name: {} for name in sides.values()}
    for cells in rows_of("Prompts and generation"):
        shape = re.fullmatch(r"(\d+) x \(128 \+ 128\)", cells[0])
        if shape and cells[1] in sides:
            series[sides[cells[1]]][int(shape[1])] = figure(cells[3])
    groups = sorted(series["Millrace"])
    return [f"{rows} row{'s' if rows > 1 else ''}" for rows in groups], {
        name: [values.get(rows) for rows in groups] for name, values in series.items()}


def speed_by_policy():
    """Groups of contexts, and tokens/s of each policy as a share of f16's."""
    found = {}
    for cells in rows_of("Speed by KV policy"):
        if re.fullmatch(r"\d+ x \d+", cells[0]) and len(cells) == 8:
            found.setdefault(cells[0], {})[cells[1]] = figure(cells[4])
    names = ["f16", "q8", "k6v4", "k4v3"]
    groups = [shape.replace(" x ", " rows of ") for shape in found]
    return groups, {name: [policies[name] / policies["f16"] for policies in found.values()]
                    for name in names}


def ticks(highest):
    """Four or five round numbers from 0 to above the highest value."""
    step = next(base * 10 ** power for power in range(-2, 7) for base in (1, 2, 2.5, 5)
                if base * 10 ** power * 5 >= highest)
    return [step * number for number in range(int(-(-highest // step)) + 1)]


def shown(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def text(x, y, words, anchor="middle", size=12, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>'
            f'{escape(words)}</text>')


def bars(title, groups, series):
    """A bar chart: a group of bars for each of `groups`, in it one for each of `series`."""
    marks = ticks(max(value for values in series.values() for value in values if value))
    height = TOP + PLOT_HEIGHT + BOTTOM
    scale = PLOT_HEIGHT / marks[-1]
    across = (WIDTH - LEFT - 16) / len(groups)
    thick = across * 0.8 / len(series)
    floor = TOP + PLOT_HEIGHT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="system-ui, sans-serif" fill="#1f2933">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           text(16, 24, title, "start", 14, ' font-weight="600"')]
    for mark in marks:
        y = floor - mark * scale
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 16}" stroke="#d5dae0"/>')
        out.append(text(LEFT - 8, y + 4, shown(mark), "end"))
    for place, (name, values) in enumerate(series.items()):
        color = COLORS[place]
        for group, value in enumerate(values):
            if value is None:
                continue
            x = LEFT + across * (group + 0.1) + thick * place
            y = floor - value * scale
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{thick - 2:.1f}" '
                       f'height="{value * scale:.1f}" fill="{color}"/>')
            out.append(text(x + thick / 2 - 1, y - 4, shown(value), size=10))
        x = LEFT + place * (WIDTH - LEFT - 16) / len(series)
        out.append(f'<rect x="{x:.1f}" y="{height - 20}" width="12" height="12" fill="{color}"/>')
        out.append(text(x + 18, height - 10, name, "start"))
    for group, name in enumerate(groups):
        out.append(text(LEFT + across * (group + 0.5), floor + 18, name))
    return "\n".join([*out, "</svg>"]) + "\n"


def pictures():
    groups, series = generated_by_rows()
    yield "rows.svg", bars("Generated tokens/s, prompts and outputs of 128 tokens, two cores",
                           groups, series)
    groups, series = speed_by_policy()
    yield "kv.svg", bars("Generated tokens/s as a multiple of f16's, two cores", groups, series)


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    different = []
    for name, content in pictures():
        path = FOLDER / "plots" / name
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        different.append(name)
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
    if check and different:
        sys.exit("out of date, run docs/draw_plots.py: " + " ".join(different))


if __name__ == "__main__":
    main()
