"""Runs the sides over the shapes, in turns under the guard of phase.py, and keeps every run."""
import dataclasses
import statistics
import sys

from . import sides
from .run import Failed, Refused
from .shapes import BUSY


def typical(runs):
    """The medians of one side's runs, with the details of the last one."""
    return dataclasses.replace(
        runs[-1], prompt=statistics.median(run.prompt for run in runs),
        generate=statistics.median(run.generate for run in runs),
        total=statistics.median(run.total for run in runs),
        foreign=max(run.foreign for run in runs))


class Speeds:
    """The Rounds of each shape, whose values are Speeds."""

    def __init__(self, model, guard, make=sides.make,
                 say=lambda text: print(text, file=sys.stderr)):
        self.model, self.guard, self.make, self.say = model, guard, make, say
        self.rounds, self.made = {}, {}

    def side(self, name):
        """The prepared side. A side that cannot be prepared is tried once and fails for every
        shape."""
        if name not in self.made:
            try:
                self.made[name] = self.make(name, self.model)
            except Failed as failure:
                self.made[name] = failure
        if isinstance(self.made[name], Failed):
            raise self.made[name]
        return self.made[name]

    def run(self, shape, name):
        try:
            speed = self.side(name).measure(shape)
        except Failed as failure:
            self.say(f"{shape.name}, {name}: FAILED: {failure}")
            if isinstance(failure, Refused):
                self.made[name] = failure  # no shape will change that
            raise
        self.say(f"{shape.name}, {name}: prompt {speed.prompt:.0f}, "
                 f"generated {speed.generate:.0f} tokens/s"
                 + (f" (others took {speed.foreign:.0%})" if speed.foreign > BUSY else ""))
        return speed

    def measure(self, shape, wanted):
        """The shape's Rounds. A second call returns those of the first."""
        if shape not in self.rounds:
            self.rounds[shape] = self.guard.in_turns(
                shape.sides, lambda name: self.run(shape, name), wanted, least=shape.rounds)
            if mark := self.rounds[shape].mark:
                self.say(f"{shape.name}: {mark}")
        return self.rounds[shape]
