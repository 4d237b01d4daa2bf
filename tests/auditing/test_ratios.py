"""Ratios of means: their errors against a jackknife, and what has none."""

import math

import pytest
import torch

from netgrain.auditing.ratios import ratio_of_means


def test_the_error_is_that_of_a_jackknife() -> None:
    a, b, c = (1 + torch.rand(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).unbind(1)
    found = ratio_of_means([a, b], [c])
    without = torch.tensor(
        [(a.sum() - x) * (b.sum() - y) / (c.sum() - z) / 399 for x, y, z in zip(a, b, c, strict=True)]
    )
    assert found == pytest.approx(float(a.mean() * b.mean() / c.mean()))
    assert found.stderr == pytest.approx(
        float((399 / 400 * (without - without.mean()).square().sum()).sqrt()), rel=0.01
    )


def test_what_is_not_known_is_nan() -> None:
    zero, one = torch.zeros(3), torch.ones(3)
    assert math.isnan(ratio_of_means([one], [zero]))
    assert ratio_of_means([zero], [one]) == 0
    assert math.isnan(ratio_of_means([one[:1]], [one[:1]]).stderr)
