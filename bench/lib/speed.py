"""Runs the sides alternately over the shapes and keeps every run."""
import dataclasses
import statistics
import sys

from . import sides
from .run import Failed
from .shapes import BUSY


def typical(runs):
    """Medians of the runs that had the machine to themselves; of all where none had."""
    alone = [run for run in runs if run.foreign <= BUSY] or runs
    return dataclasses.replace(
        alone[-1], prompt=statistics.median(run.prompt for run in alone),
        generate=statistics.median(run.generate for run in alone),
        total=statistics.median(run.total for run in alone),
        foreign=max(run.foreign for run in alone))


class Speeds:
    """What was measured: shape -> side -> runs, and what failed: (shape, side) -> reason."""

    def __init__(self, model, make=sides.make, say=lambda text: print(text, file=sys.stderr)):
        self.model, self.make, self.say = model, make, say
        self.runs, self.failures, self.made = {}, {}, {}

    def side(self, name):
        """The prepared side; one that cannot be prepared fails once, for every shape."""
        if name not in self.made:
            try:
                self.made[name] = self.make(name, self.model)
            except Failed as failure:
                self.made[name] = failure
        if isinstance(self.made[name], Failed):
            raise self.made[name]
        return self.made[name]

    def measure(self, shape, names, rounds):
        """Rounds of all the sides in turn, until each has as many runs of the shape."""
        kept = self.runs.setdefault(shape, {})
        for number in range(rounds):
            for name in names:
                if (shape, name) in self.failures or len(kept.get(name, [])) > number:
                    continue
                try:
                    speed = self.side(name).measure(shape)
                except Failed as failure:
                    self.failures[shape, name] = str(failure)
                    self.say(f"{shape.name}, {name}: FAILED: {failure}")
                    continue
                kept.setdefault(name, []).append(speed)
                self.say(f"{shape.name}, {name}: prompt {speed.prompt:.0f}, "
                         f"generated {speed.generate:.0f} tokens/s"
                         + (f" (others took {speed.foreign:.0%})" if speed.foreign > BUSY else ""))

    def table(self):
        """shape -> side -> typical Speed."""
        return {shape: {name: typical(runs) for name, runs in by.items()}
                for shape, by in self.runs.items() if by}
