"""Geometric complexity of fresh networks on some of the samples."""

from __future__ import annotations

from typing import Any

import torch

from netgrain.auditing.sections.contract import Figure, Section, Subject, estimate
from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.geometry.estimate import mean_of

MEMBERS, POINTS = 4, 64
FEWER_MEMBERS, FEWEST_POINTS, VECTORS = 2, 4, 2
OUTPUTS = 10  # backward passes that the budget counts with
WORK = 1.5e11  # floating-point operations of all passes: about 5 s of one core


def measure(subject: Subject) -> dict[str, Any]:
    """The key complexity: its mean over members, with the error over them."""
    members, count, vectors = affordable(operations(read(subject.make, subject.shape, subject.seed)))
    points = subject.some_samples(count, "audit complexity")
    models = (member(subject.make, subject.seed, i, subject.device) for i in range(members))
    values = [_complexity(model, points, vectors, subject.seed) for model in models]
    return {"complexity": {"initial": estimate(mean_of(torch.tensor(values, dtype=torch.float64)))}}


def affordable(operations: float) -> tuple[int, int, int | None]:
    """Networks, points and random vectors that the budget allows; None: as many vectors as the estimator likes.

    >>> affordable(1e6), affordable(5e9), affordable(1e12)
    ((4, 64, None), (2, 5, 2), (2, 4, 2))
    """
    if operations * (1 + OUTPUTS) * MEMBERS * POINTS <= WORK:
        return MEMBERS, POINTS, None
    points = WORK / (operations * (1 + VECTORS) * FEWER_MEMBERS)
    return FEWER_MEMBERS, int(min(POINTS, max(FEWEST_POINTS, points))), VECTORS


def _complexity(model: torch.nn.Module, points: torch.Tensor, vectors: int | None, seed: int) -> float:
    if vectors is None:
        return geometric_complexity(model, points, seed=seed).value
    return geometric_complexity(model, points, estimator="vjp", vectors=vectors, batch=8, seed=seed).value


FIGURES = {"Complexity": (Figure("Geometric complexity at initialisation", "complexity.initial"),)}
SECTION = Section(order=60, measure=measure, figures=FIGURES, panel="numbers")
