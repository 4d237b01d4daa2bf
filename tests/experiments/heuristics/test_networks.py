"""The small networks: parts that can be exchanged, and complexity at the start against an exact expectation."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.experiments.heuristics.networks import ConvNet, Perceptron
from netgrain.families.members import member

SHAPE = (2, 8, 8)


def parameters(**parts: object) -> int:
    return sum(p.numel() for p in ConvNet(SHAPE, 10, **parts).parameters())


@pytest.mark.quick
def test_parts_are_what_they_are_called() -> None:
    net = ConvNet(SHAPE, 10, width=4)
    assert net(torch.zeros(3, *SHAPE)).shape == (3, 10)
    assert parameters(width=4) == (4 * 2 * 9 + 4) + (8 * 4 * 9 + 8) + (8 * 2 * 2 * 10 + 10)
    assert parameters(width=4, depth=1) == parameters(width=4) + (4 * 4 * 9 + 4) + (8 * 8 * 9 + 8)
    assert parameters(width=4, depth=1, skip=True) == parameters(width=4, depth=1)
    assert parameters(width=4, norm="batch") == parameters(width=4, norm="layer") == parameters(width=4) + 2 * 12
    kinds = {"average": nn.AvgPool2d, "max": nn.MaxPool2d}
    for pool in ("average", "max", "stride"):
        found = ConvNet(SHAPE, 10, pool=pool)
        assert found(torch.zeros(3, *SHAPE)).shape == (3, 10)
        assert {k for k in kinds if any(isinstance(m, kinds[k]) for m in found.modules())} == {pool} - {"stride"}


@pytest.mark.quick
def test_a_skip_adds_what_it_leaps_over() -> None:
    net = ConvNet(SHAPE, 10, depth=1, skip=True)
    block = net[1]
    x = torch.randn(2, 8, 8, 8)
    torch.testing.assert_close(block(x), x + block.branch(x))


def test_complexity_at_the_start_is_exact_where_nothing_is_averaged() -> None:
    """Flipping the sign of a filter flips its gate: squared slopes are halved, and convolved with a square of ones."""
    slopes = torch.ones(1, 1, *SHAPE[1:], dtype=torch.float64)  # mean squared slope of a channel of x, each its own
    total, channels = slopes * SHAPE[0], SHAPE[0]
    for outputs in (4, 8):
        variance = 2 / (9 * channels)
        spread = F.conv2d(total, torch.ones(1, 1, 3, 3, dtype=torch.float64), padding=1, stride=2)
        total, channels = outputs * variance * spread / 2, outputs
    sides = total.shape[-1]
    expected = 10 * (2 / (channels * sides**2)) * float(total.sum())
    X = torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0))
    make = partial(ConvNet, SHAPE, 10, width=4, pool="stride")
    found = torch.tensor([geometric_complexity(member(make, 0, i), X, progress=False).value for i in range(300)])
    error = float(found.std()) / math.sqrt(len(found))
    assert abs(float(found.mean()) - expected) < 4 * error
    assert error < 0.1 * expected


@pytest.mark.quick
def test_scales_multiply_weights_and_nothing_else() -> None:
    for make in (partial(Perceptron, (4, 5, 3)), partial(ConvNet, SHAPE, 10, norm="batch")):
        a, b = member(make, 0, 0), member(partial(make, scale=1.5), 0, 0)
        for p, q in zip(a.parameters(), b.parameters(), strict=True):
            torch.testing.assert_close(q, p * (1.5 if p.dim() > 1 else 1.0))
