"""Slopes: Jacobians by hand and by autograd, random rows that are unbiased, shares and correlations."""

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.auditing.slopes import slopes_of

X = torch.randn(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 5))


def test_against_jacobians_and_the_complexity() -> None:
    net = network()
    found = slopes_of(net, X)
    J = torch.stack([torch.func.jacrev(net)(x[None])[0].reshape(5, 16) for x in X])
    assert torch.allclose(found.rows, J, atol=1e-6)
    exact = ng.geometric_complexity(net, X)
    assert found.complexity.value == pytest.approx(exact.value, rel=1e-5)
    assert found.complexity.stderr == pytest.approx(exact.population_stderr, rel=1e-4)
    assert torch.allclose(found.parts().sum(1), found.steepness)
    assert all(p.requires_grad and p.grad is None for p in net.parameters())


def test_random_rows_have_the_same_mean() -> None:
    net = network()
    exact, random = slopes_of(net, X), slopes_of(net, X, vectors=400)
    assert torch.allclose(random.steepness, exact.steepness, rtol=0.25)
    assert random.complexity.value == pytest.approx(exact.complexity.value, rel=0.03)
    assert torch.equal(slopes_of(net, X, vectors=2).rows, slopes_of(net, X, vectors=2).rows)
    assert not torch.equal(slopes_of(net, X, vectors=2).rows, slopes_of(net, X, vectors=2, seed=1).rows)


def test_shares_and_correlations_of_a_linear_network() -> None:
    """Its geometry is WᵀW at every sample: 9 along the first entry, 1 along the second."""
    net = nn.Linear(4, 2, bias=False)
    net.weight.data = torch.tensor([[3.0, 0, 0, 0], [0, 1, 0, 0]])
    found = slopes_of(net, torch.randn(20, 4))
    share = found.share_inside(torch.eye(4)[:1])
    assert (share.value, share.stderr) == (pytest.approx(0.9), pytest.approx(0, abs=1e-9))
    assert found.parts()[0].tolist() == [9, 1, 0, 0]
    other = ng.Geometry.from_matrix(torch.eye(4))
    assert found.corr(other.form) == pytest.approx(10 / (82**0.5 * 2))
