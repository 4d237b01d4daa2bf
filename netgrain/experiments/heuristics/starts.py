"""Networks at initialisation: how complex a scheme is before any training, measured and known in closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.networks import Perceptron, weight_variance
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.protocol import Scale
from netgrain.families.members import member
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

POINTS = 2  # Gaussian inputs at which a network is measured; its expectation is the same at every one


def at_start(
    runner: Runner,
    experiment: str,
    networks: Sequence[Mapping[str, Any]],  # sizes, scheme, scale, count, seed of each group
    label: str,
) -> list[list[float]]:
    """Complexities of fresh perceptrons, `count` of each group; a seed is the same random numbers for every scheme."""
    units = [{"experiment": experiment, "fresh": dict(n)} for n in networks]
    return [o.numbers["complexity"] for o in runner.map(_fresh, units, label)]


def _fresh(unit: Mapping[str, Any]) -> Outcome:
    asked = unit["fresh"]
    sizes = tuple(asked["sizes"])
    generator = torch.Generator().manual_seed(derived_seed(0, "inputs at the start"))
    X = torch.randn(POINTS, sizes[0], generator=generator)
    make = partial(Perceptron, sizes, asked["scale"], asked["scheme"])
    networks = (member(make, asked["seed"], i) for i in range(asked["count"]))
    return Outcome({"complexity": [geometric_complexity(net, X, progress=False).value for net in networks]})


def expected_at_start(scheme: str, sizes: tuple[int, ...]) -> float:
    """E GC = d · Π(σ²·width) · 2^−(L−1) of a ReLU network at initialisation, at any input but zero and any width.

    Flipping the sign of a unit's weights flips its gate, so each hidden layer halves the expectation for every input.

    >>> expected_at_start("he", (64, 100, 100, 10)), round(expected_at_start("lecun", (64, 100, 100, 10)), 6)
    (20.0, 2.5)
    """
    layers = list(itertools.pairwise(sizes))
    product = math.prod(weight_variance(scheme, i, o) * o for i, o in layers)
    return float(sizes[0] * product / 2 ** (len(layers) - 1))


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Which fresh networks a row looks at: He's with all weights multiplied, and many of each scheme."""

    sizes: tuple[int, ...]
    scales: tuple[float, ...]  # of He's weights, one network per seed
    schemes: tuple[str, ...]
    networks: int  # of each scheme; fewer where a scale thins out

    def measured(self, runner: Runner, experiment: str, config: Scale) -> Fresh:
        scales, count = config.thinned(self.scales), self.networks if config.every == 1 else 20
        he = {"sizes": list(self.sizes), "scheme": "he", "scale": 1.0}
        singles = [{**he, "scale": c, "seed": s, "count": 1} for s in range(config.seeds) for c in scales]
        # schemes differ by factors only: with the same random numbers they would be one measurement
        many = [{**he, "scheme": s, "seed": 100 + i, "count": count} for i, s in enumerate(self.schemes)]
        flat = [v for (v,) in at_start(runner, experiment, singles, "initialisations")]
        rows = [flat[i : i + len(scales)] for i in range(0, len(flat), len(scales))]
        curve = SweepCurve(scales, {"complexity": rows}, [[True] * len(scales) for _ in rows])
        schemes = at_start(runner, experiment, many, "schemes")
        return Fresh(self.sizes, curve, dict(zip(self.schemes, schemes, strict=True)))


@dataclass(frozen=True, eq=False)
class Fresh:
    """Complexities of networks before training."""

    sizes: tuple[int, ...]
    curve: SweepCurve  # against the scale of the weights
    schemes: dict[str, list[float]]

    def scale_claims(self) -> list[Claim]:
        """Complexity grows with the scale of the weights, and with which power."""
        power = 2 * (len(self.sizes) - 1)
        ratio = math.log(self.curve.values[-1] / self.curve.values[0])
        slopes = [math.log(row[-1] / row[0]) / ratio for row in self.curve.numbers["complexity"]]
        return [
            claim(
                f"complexity at the start grows with the power {power} of the scale",
                f"the slope of log complexity in log scale is {power} to 0.001",
                mean(slopes),
                low=power - 0.001,
                high=power + 0.001,
                paper="grows with the scale of the initialisation",
                note="without biases a ReLU network is homogeneous",
                basis="identity",
            ),
            monotone(self.curve, "larger initial weights raise complexity at the start", 1, paper="rises"),
        ]

    def scheme_claims(self) -> list[Claim]:
        """Every scheme has the complexity of `expected_at_start`."""
        return [
            claim(
                f"{scheme} initialisation has the predicted complexity",
                f"the mean over networks is within 3 standard errors of {expected:.4g}",
                Estimate((m.value - expected) / m.stderr, 0.0, m.n),
                low=-3,
                high=3,
                paper="common initialisations have low complexity",
                basis="derived",
                note=f"mean {m.value:.4g} ± {m.stderr:.2g}; the value is their distance in standard errors",
            )
            for scheme, values in self.schemes.items()
            for m, expected in [(mean(values), expected_at_start(scheme, self.sizes))]
        ]
