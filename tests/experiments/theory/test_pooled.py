"""Theorem 3.2: members of the pooled network against the general code, rates, and which way Corr goes."""

import math

import pytest
import torch
from torch import Tensor, nn

from netgrain.experiments.theory import pooled
from netgrain.experiments.theory.material import Images, images, smooth
from netgrain.experiments.theory.statements import (
    Job,
)
from netgrain.families.probes import Data
from netgrain.geometry.covariance import data_covariance
from netgrain.training.evolution import evolution_of
from tests import naive
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once

JOB = Job()


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class PooledNet(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, n, 3, bias=False), nn.Linear(n, 1, bias=False)
        for layer in (self.conv, self.head):
            nn.init.normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).mean((2, 3)))


def test_one_pooled_member_is_that_of_the_general_code(monkeypatch: pytest.MonkeyPatch) -> None:
    X, n = smooth(6, 1, 5, torch.Generator().manual_seed(0)).double(), 2
    net, M = pooled.pooled(Images(X, torch.zeros(6).long(), "")), pooled.maps(1, 5)
    Phi, omega = _random(1, n, 9, seed=1), _random(1, n, seed=2)
    draws = iter([Phi, omega])
    monkeypatch.setattr(torch, "randn", lambda *_, **__: next(draws))
    found = M @ pooled.sampled_delta(net, n, 1, torch.Generator())[0] @ M.T
    monkeypatch.undo()
    model = PooledNet(n).double()
    model.conv.weight.data, model.head.weight.data = Phi.reshape(n, 1, 3, 3).clone(), omega.clone()
    delta = evolution_of(model.eval(), X, torch.zeros(6, 1), Data(X[:1]), progress=False)
    torch.testing.assert_close(found, delta.matrix())


def test_coordinates_of_a_patch_keep_products() -> None:
    X = smooth(6, 1, 5, torch.Generator().manual_seed(0)).double()
    net, M = pooled.pooled(Images(X, torch.zeros(6).long(), "")), pooled.maps(1, 5)
    S, G = data_covariance(X).matrix(), M @ M.T
    torch.testing.assert_close(M @ net.C @ M.T, G @ S @ G)
    assert net.corr(2) == pytest.approx(naive.corr(M @ net.inner_delta(2) @ M.T, G @ S @ G))


def test_sampled_members_of_the_pooled_network_have_that_mean() -> None:
    net = pooled.pooled(images(JOB, 20, channels=1, size=6))
    drawn = pooled.sampled_delta(net, 3, 20_000, JOB.generator("test"))
    along = torch.einsum("bpq,pq->b", drawn, net.C)
    error = float(along.std()) / math.sqrt(len(along))
    right = float((net.inner_delta(3) * net.C).sum())
    without_trace = net.inner_delta(3) + 2 * 3 * net.C.trace() * torch.eye(9)
    assert abs(float(along.mean()) - right) < 4 * error
    assert abs(float(along.mean()) - float((without_trace * net.C).sum())) > 4 * error


def test_rates_of_theorem_32() -> None:
    found = {s.quantity: s for s in rows("theorem-3.2")}
    slopes = [s.rate for s in found.values() if s.rate is not None]
    assert slopes[1:] == [pytest.approx(-1, abs=0.05), pytest.approx(-2, abs=0.1)]  # of the expression
    sampled = next(s for q, s in found.items() if "sampled members, n = 2" in q)
    assert abs(sampled.measured.value - sampled.predicted) < 4 * sampled.measured.stderr
    modules = [s for q, s in found.items() if "nn.Module" in q]
    assert len(modules) == 6
    assert all(abs(s.measured.value - s.predicted) < 4 * s.measured.stderr + 0.01 for s in modules)
    net = pooled.pooled(images(JOB, 60, channels=1, size=10))
    assert net.corr(256) < -0.999  # with its sign


def test_correlation_with_GSG_falls_at_first() -> None:
    start = rows("conjecture-1-sign")[0]
    assert start.paper == "fails"
    assert start.corrected == "holds"
    assert start.measured < -4 * start.measured.stderr


def test_derivative_of_corr_is_that_of_the_expression() -> None:
    net = pooled.pooled(images(JOB, 20, channels=1, size=6))
    n, t = 4, 1e-6
    P = net.seen(net.C)
    I = torch.eye(9, dtype=torch.float64)
    G = net.seen(n * 0.2 * 0.5 * I)
    moved = G + t * net.seen(net.inner_delta(n, 0.2, 0.5))
    numeric = (naive.corr(moved, P) - naive.corr(G, P)) / t
    assert pooled.slope_at_start(net, n, 0.2, 0.5) == pytest.approx(numeric, rel=1e-3)
