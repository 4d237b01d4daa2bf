"""Lemmas A.5 and A.6, and the moment of Corollary A.4, against samples and limits."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.experiments.theory import expectations, relu


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_normalised_moment_by_integral_is_that_of_samples() -> None:
    values = torch.tensor([0.2, 1.0, 4.0], dtype=torch.float64)
    theta = _random(40_000, 3)
    sampled = theta.square() / (theta.square() @ values)[:, None]
    error = sampled.std(0) / 200
    exact = expectations.normalised_second_moment(values)
    assert bool(((sampled.mean(0) - exact).abs() < 4 * error).all())
    low, high = expectations.bounds(values, values)
    assert low / 3 <= float(exact.min())
    assert float(exact.max()) <= high / 3
    assert float(exact.min()) < low  # the printed bound


@pytest.mark.parametrize("cos", [-0.6, 0.0, 0.8])
def test_lemma_a5_at_any_angle(cos: float) -> None:
    delta = _random(100_000, 2, seed=4)
    a, b = torch.tensor([1.0, 0.0]).double(), torch.tensor([cos, math.sqrt(1 - cos**2)]).double()
    on = ((delta @ a > 0) & (delta @ b > 0)).double()
    product = on * (delta @ a) * (delta @ b)
    across, q = expectations.both_on(cos)
    assert abs(float(product.mean()) - across) < 4 * float(product.std()) / math.sqrt(len(delta))
    assert abs(float(on.mean()) - q) < 4 * float(on.std()) / math.sqrt(len(delta))


def test_lemma_a6_in_large_dimension() -> None:
    assert expectations.second_moment(3072) == pytest.approx(1 / 16 + 1 / (4 * math.pi**2 * 3072), rel=1e-6)
    assert relu.over_angles(lambda t: t, 5) == pytest.approx(math.pi / 2)
