"""Verdicts that can fail, correlations and slopes against slow ones."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from netgrain.experiments.theory.statements import (
    corrected,
    cosine,
    difference,
    misfit,
    same,
    slope,
)
from netgrain.geometry.estimate import Estimate
from tests import naive


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_verdicts_can_fail() -> None:
    assert same(Estimate(1.0, 0.01, 50), 1.05) == "fails"
    assert same(Estimate(1.0, 0.01, 50), 1.03) == "holds"
    assert same(Estimate(math.nan, math.nan, 2), 1.0) == "undecided"
    assert same(Estimate(0.1, 0.2, 9), 0.3) == "undecided"


def test_cosine_is_the_jackknifed_one() -> None:
    members, B = [_random(3, 3, seed=i) + torch.eye(3) for i in range(6)], torch.eye(3, dtype=torch.float64)
    flat = torch.stack(members).flatten(1)
    found = corrected(cosine(flat @ flat.T, flat @ B.flatten(), 3.0))

    def plain(items: list[Tensor]) -> float:
        pairs = [float((x * y).sum()) for x, y in itertools.permutations(items, 2)]
        along = sum(float(x.trace()) for x in items) / len(items)
        return along / math.sqrt(sum(pairs) / len(pairs) * 3)

    left = [plain(naive.without(members, i)) for i in range(6)]
    assert found.value == pytest.approx(6 * plain(members) - 5 * sum(left) / 6)
    assert (
        difference(cosine(flat @ flat.T, flat @ B.flatten(), 3.0), cosine(flat @ flat.T, flat @ B.flatten(), 3.0)) == 0
    )


def test_slope_weighs_by_errors() -> None:
    y = [Estimate(1.0, 0.001, 9), Estimate(0.1, 0.0001, 9), Estimate(5.0, 5.0, 9)]
    assert slope([1, 10, 100], y) == pytest.approx(-1, abs=0.01)
    assert math.isnan(slope([1, 2], [Estimate(-1.0), Estimate(1.0)]))
    assert math.isnan(misfit(Estimate(1.01, 0.1, 5)))
    found, near = misfit(Estimate(0.6, 1e-6, 5)), misfit(Estimate(0.6 + 1e-6))
    assert found.value == pytest.approx(math.tan(math.acos(0.6)))
    assert found.stderr == pytest.approx(found.value - near.value, rel=1e-4)
