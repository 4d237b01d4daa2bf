"""App. A.3: correlations over members against a loop, moments of a training, and what must hold exactly."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.experiments.theory import curvature
from netgrain.experiments.theory.statements import Job
from netgrain.training.curvature import loss_curvature
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_correlation_of_means_over_different_members() -> None:
    A, B = _random(4, 3, 2, seed=0) + 1, _random(4, 3, 2, seed=1) + 1
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]

    def product(X: Tensor, Y: Tensor) -> float:
        return sum(float((X[i] * Y[j]).sum()) for i, j in pairs) / len(pairs)

    expected = product(A, B) / math.sqrt(product(A, A) * product(B, B))
    assert float(curvature.correlation(A, B).whole) == pytest.approx(expected)
    assert float(curvature.correlation(A, 3 * A).whole) == pytest.approx(1)


def test_random_signs_keep_inner_products() -> None:
    A, B = (_random(200, 200, seed=s) for s in (0, 1))
    V = torch.cat([curvature._columns(200, Job("laptop", seed)) for seed in range(40)], 1) / math.sqrt(40)
    A, B = A @ A.T, A @ A.T + B
    assert float(((A @ V) * (B @ V)).sum() / (A * B).sum()) == pytest.approx(1, abs=0.05)


def test_a_look_is_what_finite_differences_give() -> None:
    """d/dt of the mean curvature along one small step of gradient flow, and Δ along the same step."""
    t = curvature.trainings(Job(), "MLP", "cross-entropy")
    X, V = t.data.X.double(), torch.eye(16, dtype=torch.float64)
    model = t.at(0, "middle")
    look = curvature._look(model, X, t.y, "cross-entropy", V, points=3)
    loss = torch.nn.functional.cross_entropy(model.requires_grad_(True)(X), t.y, reduction="sum")
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    model.requires_grad_(False)
    sides = []
    for sign in (1, -1):
        with torch.no_grad():
            for p, s in zip(model.parameters(), slopes, strict=True):
                p.sub_(sign * 1e-5 * s)
            sides.append((loss_curvature(model, X[:3], t.y[:3]).matvec(V), _geometry(model, X[:3])))
            for p, s in zip(model.parameters(), slopes, strict=True):
                p.add_(sign * 1e-5 * s)
    rate, delta = ((after - before) / 2e-5 for after, before in zip(*sides, strict=True))
    torch.testing.assert_close(look[2], rate, rtol=1e-4, atol=1e-6 * float(rate.abs().max()))
    torch.testing.assert_close(look[3], delta, rtol=1e-4, atol=1e-6 * float(delta.abs().max()))
    torch.testing.assert_close(look[1], _geometry(model, X[:3]))


def _geometry(model: torch.nn.Module, x: Tensor) -> Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        f = model(x)
        (g,) = torch.autograd.grad((f[:, 0] - f[:, 1]).sum(), x)
    return g.flatten(1).T @ g.flatten(1) / len(x)


def test_both_losses_and_what_holds_exactly() -> None:
    found = {s.quantity: s for s in rows("curvature")}
    assert found["‖ℓ'∇²f‖/‖∇²ₓℓ‖ at the end, MLP with ReLU"].measured.value == 0
    assert found["largest |ℓ'''| of the logistic loss"].paper == "holds"
    odds = found["√E ℓ'²/√E ℓ''² at the end, MLP, cross-entropy"]
    assert odds.measured.value >= 1  # |ℓ'|/ℓ'' = 1/p at every sample
    assert odds.paper == "fails"
    assert not any("third-derivative" in q and "sse" in q for q in found)  # it is zero there
