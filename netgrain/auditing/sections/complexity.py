"""Geometric complexity of fresh networks on some of the samples."""

from __future__ import annotations

import math
from typing import Any

import torch

from netgrain.auditing.sections.contract import Figure, Report, Section, Subject, estimate
from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import member
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.randomness import derived_seed

MEMBERS, POINTS = 4, 64


def measure(subject: Subject) -> dict[str, Any]:
    """The key complexity: its mean over members, with the error over them."""
    X, seed = subject.X, subject.seed
    generator = torch.Generator().manual_seed(derived_seed(seed, "audit complexity"))
    points = X[torch.randperm(len(X), generator=generator)[:POINTS]]
    models = (member(subject.make, seed, i, subject.device) for i in range(MEMBERS))
    values = [geometric_complexity(model, points, seed=seed).value for model in models]
    t = torch.tensor(values, dtype=torch.float64)
    found = Estimate(float(t.mean()), float(t.std()) / math.sqrt(MEMBERS), MEMBERS)
    return {"complexity": {"initial": estimate(found)}}


def figures(_: Report) -> list[Figure]:
    """The complexity at initialisation."""
    return [Figure("Complexity", "Geometric complexity at initialisation", "number", ("complexity", "initial"))]


SECTION = Section(order=60, measure=measure, figures=figures, panel="numbers")
