"""Flows and descents against closed forms, finite differences and autograd."""

import math

import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.experiments.heuristics.descent_paths import SmallNetwork, descent, order, runge_kutta


def small(seed: int = 0) -> tuple[SmallNetwork, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X, Y = (torch.randn(6, n, generator=generator, dtype=torch.float64) for n in (4, 3))
    net = SmallNetwork(X, Y, 5)
    return net, net.start(1.5, generator)


def test_runge_kutta_and_descent_on_a_quadratic() -> None:
    """w' = −λw is exp(−λt)w; descent is (1 − ηλ)ⁿw; the flow of the modified loss is exp(−(λ + ηλ²/2)t)w."""
    rate, w = 2.0, torch.ones(1, dtype=torch.float64)
    assert float(runge_kutta(lambda t: -rate * t, w, 1.0, 50)[-1]) == pytest.approx(math.exp(-2), rel=1e-6)
    path = runge_kutta(lambda t: -rate * t, w, 1.0, 4)
    assert (len(path), float(path[0])) == (5, 1.0)
    errors = [abs(float(runge_kutta(lambda t: -rate * t, w, 1.0, n)[-1]) - math.exp(-2)) for n in (10, 20, 40)]
    assert order([1 / 10, 1 / 20, 1 / 40], errors) == pytest.approx(4, abs=0.2)
    assert float(descent(lambda t: rate * t, w, 0.1, 10)[-1]) == pytest.approx(0.8**10)
    rates = [0.1, 0.05, 0.025]
    ends = [float(descent(lambda t: rate * t, w, h, round(1 / h))[-1]) for h in rates]
    plain = [abs(end - math.exp(-rate)) for end in ends]
    modified = [abs(end - math.exp(-rate - h * rate**2 / 2)) for h, end in zip(rates, ends, strict=True)]
    assert order(rates, plain) == pytest.approx(1, abs=0.1)
    assert order(rates, modified) == pytest.approx(2, abs=0.2)


def test_the_network_is_that_of_torch() -> None:
    net, theta = small()
    W, b, V, c = net.parts(theta)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    for p, q in zip(module.parameters(), (W, b, V, c), strict=True):
        p.data.copy_(q)
    assert float(net.loss(theta)) == pytest.approx(float((module(net.X) - net.Y).detach().square().sum() / 12))
    assert net.complexity(theta) == pytest.approx(geometric_complexity(module, net.X, progress=False).value, rel=1e-10)


def test_gradients_are_finite_differences_of_the_modified_loss() -> None:
    net, theta = small(1)
    halves = (slice(0, 3), slice(3, 6))

    def modified(t: Tensor, parts: tuple[slice, ...]) -> float:
        penalty = sum(float(net.gradient(t, p).square().sum()) for p in parts) / len(parts)
        return float(net.loss(t)) + 0.3 * penalty

    for parts in ((slice(None),), halves):
        found = net.modified_gradient(theta, 0.3, parts)
        for j in (0, 7, 25, len(theta) - 1):
            e = torch.zeros_like(theta)
            e[j] = 1e-6
            slope = (modified(theta + e, parts) - modified(theta - e, parts)) / 2e-6
            assert float(found[j]) == pytest.approx(slope, rel=1e-5, abs=1e-8)
    torch.testing.assert_close(net.modified_gradient(theta, 0.0), net.gradient(theta))
