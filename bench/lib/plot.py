"""Draws the speeds as bars (prompt above, generation below, a group for each shape and a bar for
each side), and any figures as horizontal bars."""
import statistics

from .shapes import SIDES


def bars(measured, speed):
    """side -> [median tokens/s or None, for each shape in order], for the sides that ran.
    measured: shape -> Rounds."""
    def middle(rounds, side):
        found = rounds.of(side, lambda value: getattr(value, speed))
        return statistics.median(found) if found else None
    ran = [side for side in SIDES if any(rounds.of(side) for rounds in measured.values())]
    return {side: [middle(rounds, side) for rounds in measured.values()] for side in ran}


def draw(measured, title, path):
    """Writes a PNG. Needs matplotlib."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    names = [f"{shape.rows} x\n{shape.prompt}+{shape.output}" for shape in measured]
    figure, panels = plt.subplots(2, 1, figsize=(max(8, 1.5 * len(names)), 8))
    for axes, speed in zip(panels, ("prompt", "generate")):
        sides = bars(measured, speed)
        width = 0.85 / max(1, len(sides))
        for index, (side, values) in enumerate(sides.items()):
            at = [x + (index - (len(sides) - 1) / 2) * width for x in range(len(names))]
            axes.bar(at, [value or 0 for value in values], width, label=side)
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_ylabel("prompt tokens/s" if speed == "prompt" else "generated tokens/s")
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, ncols=4, frameon=False,
                  loc="lower center")
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_panels(panels, title, path):
    """Writes a PNG with panels side by side. A panel is (what, {name: figure})."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    tallest = max(len(figures) for _, figures in panels)
    drawn, all_axes = plt.subplots(1, len(panels), figsize=(7 * len(panels), 1.5 + 0.35 * tallest),
                                   squeeze=False)
    for axes, (what, figures) in zip(all_axes[0], panels):
        bar = axes.barh(list(figures), list(figures.values()))
        axes.bar_label(bar, fmt="%.3g", fontsize=8, padding=2)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=8)
        axes.set_title(what, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.suptitle(title, fontsize=10)
    drawn.tight_layout()
    drawn.savefig(path, dpi=110)
    plt.close(drawn)
