"""Geometric complexity of fresh networks on some of the samples."""

from __future__ import annotations

from typing import Any

import torch

from netgrain.auditing.sections.contract import Figure, Section, Subject, estimate
from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import member
from netgrain.geometry.estimate import mean_of

MEMBERS, POINTS = 4, 64


def measure(subject: Subject) -> dict[str, Any]:
    """The key complexity: its mean over members, with the error over them."""
    points = subject.some_samples(POINTS, "audit complexity")
    models = (member(subject.make, subject.seed, i, subject.device) for i in range(MEMBERS))
    values = [geometric_complexity(model, points, seed=subject.seed).value for model in models]
    return {"complexity": {"initial": estimate(mean_of(torch.tensor(values, dtype=torch.float64)))}}


FIGURES = {"Complexity": (Figure("Geometric complexity at initialisation", "complexity.initial"),)}
SECTION = Section(order=60, measure=measure, figures=FIGURES, panel="numbers")
