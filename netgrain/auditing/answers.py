"""How well a trained network answers: accuracy or R², which classes it mistakes, and how sure it is of itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from netgrain.families.members import forward
from netgrain.geometry.estimate import Estimate, mean_of

BINS = 10  # of confidence
AT_ONCE = 64  # samples that pass together
PAIRS = 5  # of classes that are mistaken most


def outputs_at(call: Callable[[Tensor], Any], X: Tensor, at_once: int = AT_ONCE) -> Tensor:
    """Outputs at all samples, (samples, outputs) in float64."""
    with torch.no_grad():
        return torch.cat([forward(call, part).cpu().double() for part in X.split(at_once)])


@dataclass(frozen=True)
class Mistake:
    """Samples of one class that were given another."""

    true: int
    said: int
    count: int
    share: Estimate  # of the samples of the true class


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers of a classifier beside the labels; a single output says class 1 where it is above 0.

    >>> outputs = torch.tensor([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0], [0.0, 9.0]]).double()
    >>> found = Answers(outputs, torch.tensor([0, 1, 1, 1]))
    >>> found.accuracy, found.mistakes()
    (0.75 ± 0.25 (n = 4), [Mistake(true=1, said=0, count=1, share=0.33 ± 0.33 (n = 3))])
    """

    outputs: Tensor  # (samples, outputs) float64
    y: Tensor  # (samples,) classes

    @property
    def probabilities(self) -> Tensor:
        if self.outputs.shape[1] == 1:
            p = self.outputs.sigmoid()
            return torch.cat([1 - p, p], 1)
        return self.outputs.softmax(1)

    @property
    def said(self) -> Tensor:
        return self.probabilities.argmax(1)

    @property
    def hits(self) -> Tensor:
        return (self.said == self.y).double()

    @property
    def accuracy(self) -> Estimate:
        return mean_of(self.hits)

    @property
    def chance(self) -> float:
        """Always giving the most frequent class."""
        return float(self.y.bincount().max()) / len(self.y)

    def mistakes(self, most: int = PAIRS) -> list[Mistake]:
        """Pairs of classes by how many samples of the first are given the second, the most frequent first."""
        k = max(int(self.y.max()), int(self.said.max())) + 1
        table = torch.bincount(self.y * k + self.said, minlength=k * k).reshape(k, k)
        per_class = table.sum(1)
        table = table.clone().fill_diagonal_(0)
        order = table.flatten().argsort(descending=True, stable=True)[:most].tolist()
        found = []
        for place in order:
            true, said = divmod(place, k)
            if count := int(table[true, said]):
                n = int(per_class[true])
                hits = (torch.arange(n) < count).double()
                found.append(Mistake(true, said, count, mean_of(hits)))
        return found

    @property
    def overconfidence(self) -> Estimate:
        """Mean probability of the class that is given, minus the accuracy."""
        return mean_of(self.probabilities.amax(1) - self.hits)

    @property
    def calibration_error(self) -> float:
        """Mean |confidence − accuracy| over bins of confidence, weighted by their samples (ECE)."""
        confidence, hits = self.probabilities.amax(1), self.hits
        place = (confidence * BINS).long().clamp(max=BINS - 1)
        gaps = torch.zeros(BINS, dtype=torch.float64).index_add_(0, place, confidence - hits)
        return float(gaps.abs().sum()) / len(hits)


def explained(outputs: Tensor, y: Tensor) -> Estimate:
    """R² = 1 − mean (y − f)² / var y of numbers, with its linearised error.

    >>> explained(torch.tensor([[1.0], [2.0], [2.0]]), torch.tensor([1.0, 2.0, 3.0]))  # 1 − (1/3) / (2/3)
    0.5 ± 0.43 (n = 3)
    """
    f, y = outputs.double().reshape(len(y), -1)[:, 0], y.double().reshape(len(y))
    wrong, spread = (f - y).square(), (y - y.mean()).square()
    variance = spread.mean()
    if float(variance) == 0:
        return Estimate(math.nan, math.nan, len(y))
    ratio = float(wrong.mean() / variance)
    return Estimate(1 - ratio, mean_of((wrong - ratio * spread) / variance).stderr, len(y))
