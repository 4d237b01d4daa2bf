"""Networks at initialisation: how complex a scheme is before any training, measured and known in closed form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from netgrain.complexity.estimators import geometric_complexity
from netgrain.experiments.heuristics.protocol import Perceptron, weight_variance
from netgrain.families.members import member
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
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
