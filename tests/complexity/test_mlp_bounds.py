"""Bounds for multilayer perceptrons by the norms of their weights, and the transfer inequality."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from netgrain.complexity.mlp_bounds import norm_bounds, transfer_inequality
from netgrain.runtime.errors import NetgrainError


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU, seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out, bias=bias), act()]
    return nn.Sequential(*parts[:-1]).double().eval()


def jacobians(net: nn.Module, X: Tensor) -> Tensor:
    """(n, k, d), by torch's own reverse mode."""
    return torch.stack([jacobian(lambda x: net(x[None])[0].flatten(), x).reshape(-1, x.numel()) for x in X])


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x + 2 * self.a(x), x - self.b(x) / 4 + 1], 1)


FIFTY = [
    (act, depth, seed)
    for seed in range(9)
    for act in (nn.ReLU, nn.Tanh)
    for depth in (1, 2, 3)
    if (seed, depth) not in ((8, 1), (8, 2))
]


def test_fifty_random_networks_obey_every_bound() -> None:
    assert len(FIFTY) == 50
    slacks = []
    for act, depth, seed in FIFTY:
        widths = torch.randint(3, 12, (depth,), generator=torch.Generator().manual_seed(seed)).tolist()
        net, X = mlp(5, *widths, 4, act=act, seed=seed), noise(6, 5, seed=seed)
        bounds = norm_bounds(net, X)
        assert 0 < bounds.gc <= bounds.frobenius <= bounds.mean_power
        assert bounds.gc <= bounds.spectral
        sides = transfer_inequality(net, X)
        assert bool((sides.left <= sides.right).all())
        assert sides.holds
        torch.testing.assert_close(sides.jacobian, jacobians(net, X).square().sum((1, 2)))
        slacks.append(sides.slack[sides.jacobian > 0])
    slack = torch.cat(slacks)
    assert float(slack.min()) >= 1
    assert 4 < float(slack.median()) < 30  # the spec's own networks: 9.6


@pytest.mark.parametrize("bias", [True, False])
def test_the_right_side_is_the_parameter_gradient(bias: bool) -> None:
    net, X = mlp(4, 6, 5, 3, act=nn.Tanh, bias=bias), noise(3, 4)
    sides = transfer_inequality(net, X)
    for x, right in zip(X, sides.right, strict=True):
        rows = [torch.autograd.grad(net(x[None])[0, c], list(net.parameters())) for c in range(3)]
        assert math.isclose(sum(float(g.square().sum()) for row in rows for g in row), float(right), rel_tol=1e-10)


def test_the_left_side_by_hand() -> None:
    """One hidden unit: every factor is a number."""
    net = mlp(1, 1, 1, act=nn.Tanh)
    for p, value in zip(net.parameters(), (2.0, 0.5, 3.0, 0.0), strict=True):
        p.data.fill_(value)
    x = 0.3
    h = math.tanh(2 * x + 0.5)
    slope = 2 * (1 - h**2)
    left = (3 * slope) ** 2 * ((1 + x**2) / 4 + (1 + h**2) / (9 * slope**2))
    sides = transfer_inequality(net, torch.tensor([[x]], dtype=torch.float64))
    assert math.isclose(float(sides.left[0]), left, rel_tol=1e-10)


def test_norm_bounds_are_reached() -> None:
    """Rank-one layers that fit together: Frobenius is an equality, and so is its mean where norms agree."""
    net = mlp(2, 2, 2, bias=False)
    for p in net.parameters():
        p.data.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    bounds = norm_bounds(net, torch.ones(1, 2, dtype=torch.float64))
    assert bounds.gc == bounds.frobenius == bounds.mean_power == 16
    assert math.isclose(bounds.spectral, 32)
    for p in net.parameters():
        p.data.copy_(3 * torch.eye(2))
    bounds = norm_bounds(net, torch.ones(1, 2, dtype=torch.float64))
    assert math.isclose(bounds.gc, 162)
    assert math.isclose(bounds.spectral, 162)


def test_steep_activations_enter_the_norm_bounds() -> None:
    class Steep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.leaky_relu(x, 5.0)

    net = nn.Sequential(nn.Linear(1, 1, bias=False), Steep(), nn.Linear(1, 1, bias=False)).double()
    for p in net.parameters():
        p.data.fill_(1.0)
    bounds = norm_bounds(net, -torch.ones(1, 1, dtype=torch.float64))
    assert bounds.gc == 25 == bounds.frobenius


def test_only_chains_have_norm_bounds() -> None:
    x = noise(2, 3)
    with pytest.raises(NetgrainError, match="expected a multilayer perceptron"):
        norm_bounds(Branches().double(), x)
    with pytest.raises(NetgrainError, match="expected a multilayer perceptron"):
        transfer_inequality(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).double(), x)
    shared = nn.Linear(3, 3).double()
    with pytest.raises(NetgrainError, match="shared"):
        transfer_inequality(nn.Sequential(shared, nn.ReLU(), shared), x)
