"""Theorem 3.1: the exact expression against average_evolution, and the rates that follow from it."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from netgrain.experiments.theory import relu
from netgrain.families.probes import Gaussian
from netgrain.training.evolution import average_evolution
from tests import naive
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_one_member_is_that_of_average_evolution() -> None:
    """All heads ±w averaged by brute force, at x and at −x, through the general code."""
    D, n, w = 4, 3, 0.7
    X, W, x = _random(5, D, seed=1), _random(n, D, seed=2), _random(D, seed=3)
    A, B = relu.member_terms(X, W, x, kurtosis=1.0)  # two signs: E ω⁴ = w⁴
    total = torch.zeros(D, D, dtype=torch.float64)
    for signs in itertools.product((w, -w), repeat=n):
        net = nn.Sequential(nn.Linear(D, n, bias=False), nn.ReLU(), nn.Linear(n, 1, bias=False)).double()
        net[0].weight.data, net[2].weight.data = W.clone(), torch.tensor([signs], dtype=torch.float64)
        M = naive.evolution([net], torch.stack([x, -x]), lambda m: m(X).square().sum() / 2)
        total += (M + M.T) / 2**n
    torch.testing.assert_close(-2 * (w**2 * A + w**4 * B), total)


def test_the_exact_expression_is_that_of_average_evolution() -> None:
    """α S + β tr(S) I against sampled networks, entry by entry along the axes of S."""
    D, n, w, p = 3, 4, 0.8, 0.6

    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(D, n, bias=False), nn.ReLU(), nn.Linear(n, 1, bias=False)).double()
        nn.init.normal_(net[0].weight, std=p)
        nn.init.normal_(net[2].weight, std=w)
        return net

    X = _random(5, D, seed=1) * torch.tensor([3.0, 2.0, 1.0])
    S = X.T @ X
    found = average_evolution(make, X, members=400, probe=Gaussian(), probes=16, workers=1, progress=False)
    alpha, beta = relu.coefficients(n, D, w**2 / p**2)
    I = torch.eye(D, dtype=torch.float64)
    expected = -2 * w**2 * p**4 * (alpha * S + beta * S.trace() * I)
    for H in (S, I):
        measured = found.delta.inner(H)
        assert abs(measured - float((H * expected).sum())) < 4 * measured.stderr
        assert abs(measured - float((H * expected).sum()) / 2) > 4 * measured.stderr  # the factor of M + Mᵀ


@pytest.mark.parametrize("rho", [0.3, 1.0, 5.0])
def test_leading_order_is_the_limit(rho: float) -> None:
    alpha, beta = relu.coefficients(10**5, 10**5, rho)
    assert beta / alpha == pytest.approx(relu.leading_kappa(10**5, 10**5, rho), rel=1e-3)


def test_corr_of_a_shifted_covariance() -> None:
    S = torch.diag(torch.tensor([5.0, 2.0, 1.0, 0.5]).double())
    shifted = S + 0.3 * S.trace() * torch.eye(4)
    rank = float(S.trace() ** 2 / S.square().sum())
    assert relu.corr_with_S(0.3, 4, rank) == pytest.approx(naive.corr(shifted, S))


def test_rates_of_theorem_31_contradict_the_printed_ones() -> None:
    by_quantity = {s.quantity.partition(":")[0]: s for s in rows("theorem-3.1") if s.claimed_rate is not None}
    assert by_quantity["rate in D"].rate > 0 > by_quantity["rate in D"].claimed_rate
    assert by_quantity["rate in D"].paper == "fails"
    assert {s.corrected for s in by_quantity.values()} == {"holds"}
    floor = relu._floor(3072, 9.6)
    assert floor.paper == "fails"
    assert floor.corrected == "holds"
