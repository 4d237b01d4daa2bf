"""What a study shows of a sweep: one curve, one of its measures, and the words around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from netgrain.complexity.sweeps import SweepCurve


class Measure(NamedTuple):
    """How a measure is called in a sentence and along an axis."""

    words: str
    axis: str


MEASURES = {
    "complexity": Measure("geometric complexity", "geometric complexity"),
    "margin_complexity": Measure("complexity over the squared median margin", "complexity / median margin²"),
    "arc": Measure("arc length", "arc length"),
}


@dataclass(frozen=True, eq=False)
class Panel:
    """One curve and what to write around it."""

    title: str
    curve: SweepCurve
    setting: str  # what is varied
    measure: str = "complexity"
    caption: str = ""  # under the title, instead of rho
    network: str = ""  # before rho

    @property
    def axis(self) -> str:
        return MEASURES[self.measure].axis
