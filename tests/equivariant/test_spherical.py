"""Networks over the rotations."""

import numpy as np
import pytest
import torch

from netgrain.equivariant import (
    SphericalNetwork,
    exponential_descent,
    linearisation,
    predictor,
    spherical_limit,
    spherical_transform,
)
from netgrain.equivariant.spherical import block_limit
from netgrain.groups.so3 import wigner
from netgrain.runtime.errors import NetgrainError
from tests.equivariant.known_limits import teacher


def test_spherical_network() -> None:
    assert spherical_transform(3).n == 1 + 9 + 25
    X, y = teacher(1 + 9, 4, 0)
    flat, deep = (spherical_limit(2, X, y, depth=depth) for depth in (2, 3))
    assert flat.dual_gap is not None
    assert flat.dual_gap < 1e-4
    assert deep.kkt_residual < 1e-6
    assert deep.balancedness == pytest.approx(1, abs=1e-6)
    assert deep.weighted_rank <= flat.weighted_rank
    assert len(deep.ranks) == 2


def test_spherical_network_is_an_integral_over_rotations() -> None:
    """<x, β> = ∫ x β over the grid, β = ŵ_2 ŵ_1; the correlation commutes with rotations from the left."""
    net, x = SphericalNetwork(3, 2, seed=1), torch.from_numpy(np.random.default_rng(0).standard_normal((2, 35)))
    grid = net.grid
    values = [grid.inverse_fourier(net.blocks(f), real=True) for f in (x, predictor(net).detach())]
    assert net(x).detach().numpy() == pytest.approx((values[0] * values[1] * grid.weights).sum((-3, -2, -1)).numpy())
    turn = [wigner(l, *torch.tensor([0.3, 0.7, -1.1]), real=True) for l in range(3)]
    rotated = net.flat([D @ b for D, b in zip(turn, net.blocks(x), strict=True)])
    first = net.layer(x, 0).detach()
    expected = net.flat([D @ b for D, b in zip(turn, net.blocks(first), strict=True)])
    assert net.layer(rotated, 0).detach().numpy() == pytest.approx(expected.numpy())


def test_spherical_network_with_relu() -> None:
    net = SphericalNetwork(3, 3, relu=True, seed=1)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 35)))
    found = linearisation(net, x)
    outputs = net(x).detach()
    assert (found.gradients * x).sum(1).numpy() == pytest.approx(outputs.numpy())
    assert not torch.allclose(net(-x), -outputs, atol=1e-3)
    y = torch.tensor([1.0, -1] * 4)
    trained = exponential_descent(net, x, y, group=net.transform(), method="ngd", epochs=100)
    assert trained.margins[-1] > 1
    assert trained.fourier_ratios[-1] != trained.fourier_ratios[0]


def test_a_bandwidth_is_at_least_one() -> None:
    with pytest.raises(NetgrainError, match="bandwidth expects at least 1"):
        spherical_limit(0, *teacher(8, 10, 0))


def test_raw_coefficients_are_another_network() -> None:
    """The certificate of the weighted problem holds for isometric coordinates and fails for raw ones (spec 5.8)."""
    X, y = teacher(21, 6, 0)
    blocks = ([1, 1, 1, 3, 3], [1, 1, 1, 3, 3])
    good, naive = (block_limit(*blocks, X, y, depth=2, isometric=flag) for flag in (True, False))
    assert good.dual_gap is not None
    assert naive.dual_gap is not None
    assert good.dual_gap < 1e-4
    assert naive.dual_gap > 1e-2
    assert naive.kkt_residual > 1e-2
