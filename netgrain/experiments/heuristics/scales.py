"""What the sweeps of one heuristic share: their scales, their result, and the trainings they begin from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.protocol import Protocol


@dataclass(frozen=True)
class Scale:
    """The size of a sweep. The paper trains ResNet18 on CIFAR-10 with plain SGD; a laptop a perceptron on digits."""

    seeds: int
    steps: int  # of each training; a ceiling where training stops at a loss
    every: int = 1  # settings are thinned out by this factor
    data: str = "digits"
    network: str = "perceptron"
    samples: int = 1000
    batch: int = 64
    points: int | None = None

    def protocol(self, settings: dict[str, Any], **changes: Any) -> Protocol:
        """A training at this scale: the batch of the scale, unless the settings say otherwise; plain SGD."""
        plain = {"momentum": 0.0, "batch": self.batch, "replacement": self.data == "digits", "steps": self.steps}
        base = Protocol({**plain, **settings}, self.data, self.samples, self.network, points=self.points)
        if self.network != "perceptron":  # its own initialisation, and all of the data
            changes = {k: v for k, v in changes.items() if k not in ("hidden", "samples")}
        return replace(base, **changes)

    def thinned(self, values: Sequence[float]) -> tuple[float, ...]:
        return tuple(values)[:: self.every]


def scales(steps: int, seeds: int = 5, smoke_steps: int = 40) -> dict[str, Scale]:
    """The three scales of a sweep over trainings."""
    return {
        "smoke": Scale(seeds=2, steps=smoke_steps, every=2, samples=200, points=100),
        "laptop": Scale(seeds=seeds, steps=steps),
        "paper": Scale(
            seeds=seeds,
            steps=10_000,
            data="cifar10",
            network="resnet18:norm=batch",
            samples=50_000,
            batch=512,
            points=1000,
        ),
    }


@dataclass(frozen=True, eq=False)
class Curves:
    """What an experiment of sweeps found: a curve for each protocol."""

    config: Scale
    curves: dict[str, SweepCurve]


@dataclass(frozen=True, eq=False)
class Panel:
    """One curve and what to write around it."""

    title: str
    curve: SweepCurve
    setting: str  # what is varied
    measure: str = "complexity"
    what: str = "geometric complexity"
    caption: str | None = None  # instead of rho
