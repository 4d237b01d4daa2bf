"""One seed of a network on a task: trained at the best of several rates, and tested."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from netgrain.experiments.learnability.reaching import (
    LARGEST,
    SMALLEST,
    AdamW,
    Augmentation,
    Optimizer,
    Reached,
    Recipe,
    at_edge,
    best_rate,
    train_until,
)
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.families.members import Family
from netgrain.runtime.units import Outcome


def training_outcome(
    make: Family,
    data: TaskData,
    rates: Sequence[float],
    recipe: Recipe,
    *,
    seed: int,
    optimizer: Callable[[Sequence[Tensor]], Optimizer] = AdamW,
    augment: Augmentation | None = None,
    limits: tuple[float, float] = (SMALLEST, LARGEST),
) -> Outcome:
    """One seed at the best of its rates by validation accuracy; a single rate is taken as it is.

    Numbers: rate, rates (validation accuracy of each), edge, end, epochs, train and test accuracy. Array: right, which
    tests it gets right.
    """
    found: dict[float, Reached] = {}

    def validated(rate: float) -> float:
        found[rate] = train_until(make, *data.train, rate, recipe, seed=seed, optimizer=optimizer, augment=augment)
        return math.nan if found[rate].end == "diverged" else float(found[rate].right(*data.validation).double().mean())

    if len(rates) > 1:
        rate, scores = best_rate(validated, rates, limits=limits)
    else:
        rate, scores = rates[0], {rates[0]: validated(rates[0])}
    best = found[rate]
    right = best.right(*data.test)
    return Outcome(
        {
            "rate": rate,
            "rates": {f"{r:g}": None if math.isnan(s) else s for r, s in scores.items()},
            "edge": at_edge(rate, scores),
            "end": best.end,
            "epochs": best.epochs,
            "train": None if math.isnan(best.train) else best.train,
            "test": float(right.double().mean()),
        },
        {"right": right.to(torch.uint8)},
    )
