"""Curvature of the loss in the input space: equal to torch's dense Hessians, its parts, and what is left out."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import hessian, jacobian

from netgrain.runtime.errors import NetgrainError
from netgrain.training.curvature import LossCurvature, loss_curvature

D = 5
LABELS = {1: torch.tensor([0, 1, 1]), 2: torch.tensor([1, 0, 1]), 4: torch.tensor([0, 3, 1])}
I = torch.eye(D, dtype=torch.float64)
X = torch.randn(3, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def network(k: int, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Linear(6, 6), nn.GELU(), nn.Linear(6, k)).double().eval()


def value(f: Tensor, y: Tensor) -> Tensor:
    """Σℓ of the outputs (samples, k)."""
    if f.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(f[:, 0], y.to(f), reduction="sum")
    return F.cross_entropy(f, y, reduction="sum")


def slow(net: nn.Module, y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over samples of the dense Hessian and of JᵀH_ℓJ."""
    whole, kept = torch.zeros(D, D, dtype=torch.float64), torch.zeros(D, D, dtype=torch.float64)
    for x, label in zip(X, y, strict=True):
        whole += hessian(lambda x, label=label: value(net(x[None]), label[None]), x) / len(X)
        J = jacobian(lambda x: net(x[None])[0], x)
        H = hessian(lambda f, label=label: value(f[None], label[None]), net(x[None])[0].detach())
        kept += J.T @ H @ J / len(X)
    return whole, kept


def moved(net: nn.Module, y: Tensor, eta: float) -> nn.Module:
    """One small step of gradient descent."""
    other = copy.deepcopy(net)
    gradients = torch.autograd.grad(value(net(X), y), list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(other.parameters(), gradients, strict=True):
            p -= eta * g
    return other


@pytest.mark.quick
@pytest.mark.parametrize("k", LABELS)
def test_products_equal_dense_hessians(k: int) -> None:
    net, y = network(k), LABELS[k]
    found = loss_curvature(net, X, y)
    whole, kept = slow(net, y)
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)  # noqa: E731
    close(found.matvec(I), whole)
    close(found.gauss_newton(I), kept)
    close(found.residual(I), whole - kept)
    assert found.gap == pytest.approx(float((whole - kept).norm() / whole.norm()))
    assert found.gap.stderr == 0
    close(found.matvec(X[0]), whole @ X[0])


@pytest.mark.parametrize("k", LABELS)
def test_rates_are_time_derivatives_along_the_flow(k: int) -> None:
    net, y, eta = network(k), LABELS[k], 1e-6
    now, later = loss_curvature(net, X, y), loss_curvature(moved(net, y, eta), X, y)
    rate = now.second(I) + now.third(I)
    close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * float(b.abs().max()))  # noqa: E731
    close((later.gauss_newton(I) - now.gauss_newton(I)) / eta, rate)
    close((later.residual(I) - now.residual(I)) / eta, now.residual_rate(I))
    assert now.third_share == pytest.approx(float(now.third(I).norm() / rate.norm()))
    neglected = now.third(I) + now.residual_rate(I)
    assert now.rate_gap == pytest.approx(float(neglected.norm() / (rate + now.residual_rate(I)).norm()))


def test_third_derivative_of_the_logistic_loss() -> None:
    """ℓ''' = p(1−p)(1−2p), at most 1/(6√3) in size; the term is ℓ''' ḟ ∇f∇fᵀ."""
    net, y = network(1), LABELS[1]
    found = loss_curvature(net, X, y)
    gradients = torch.autograd.grad(value(net(X), y), list(net.parameters()))
    expected = torch.zeros(D, D, dtype=torch.float64)
    for x in X:
        f = net(x[None])[0, 0]
        p = torch.sigmoid(f.detach())
        f_dot = -sum(
            (a * g).sum() for a, g in zip(torch.autograd.grad(f, list(net.parameters())), gradients, strict=True)
        )
        third = p * (1 - p) * (1 - 2 * p)
        assert abs(float(third)) <= 1 / (6 * math.sqrt(3))
        J = jacobian(lambda x: net(x[None])[0, 0], x)
        expected += third * f_dot * torch.outer(J, J) / len(X)
    torch.testing.assert_close(found.third(I), expected)
    for p in torch.linspace(0, 1, 101):
        assert abs(float(p * (1 - p) * (1 - 2 * p))) <= 1 / (6 * math.sqrt(3)) + 1e-9


def test_two_logits_are_one_difference() -> None:
    class Difference(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            f = self.net(x)
            return f[:, 1:] - f[:, :1]

    net, y = network(2), LABELS[2]
    two, one = loss_curvature(net, X, y), loss_curvature(Difference(net).eval(), X, y)
    for name in ("matvec", "gauss_newton", "second", "third", "residual_rate"):
        torch.testing.assert_close(getattr(two, name)(I), getattr(one, name)(I))


def test_squared_error_has_no_third_derivative() -> None:
    net, y = network(2), torch.randn(3, 2, dtype=torch.float64)
    found = loss_curvature(net, X, y, loss="sse")
    assert found.third_share == 0
    J = [jacobian(lambda x: net(x[None])[0], x) for x in X]
    torch.testing.assert_close(found.gauss_newton(I), sum(j.T @ j for j in J) / 3)
    exact = loss_curvature(net, X, net(X).detach(), loss="sse")  # every residual is zero: equation 6 is exact
    assert exact.gap == 0
    assert exact.slope == 0


def test_random_vectors_measure_the_same_gap() -> None:
    net, y = network(4), LABELS[4]
    exact = loss_curvature(net, X, y)
    some = loss_curvature(net, X, y, vectors=150)
    for name in ("gap", "pointwise_gap", "third_share", "rate_gap"):
        truth, found = getattr(exact, name), getattr(some, name)
        assert truth.stderr == 0
        assert 0 < found.stderr < 0.1
        assert abs(found - truth) < 4 * found.stderr
    assert abs(exact.gap - exact.pointwise_gap) > 1e-3  # samples cancel in one and not in the other


def test_a_piecewise_linear_network_has_no_curvature_of_its_own() -> None:
    net = nn.Sequential(nn.Linear(D, 6), nn.ReLU(), nn.Linear(6, 2)).double().eval()
    found = loss_curvature(net, X, LABELS[2])
    assert found.gap == 0
    assert found.third_share > 0


def test_mean_over_models_and_slices() -> None:
    nets = [network(2, seed) for seed in (0, 1)]
    many, y = X.repeat(50, 1), LABELS[2].repeat(50)  # more samples than one slice
    found = loss_curvature(nets, many, y)
    mean = sum(loss_curvature(net, X, LABELS[2]).matvec(I) for net in nets) / 2
    torch.testing.assert_close(found.matvec(I), mean)
    assert repr(found).startswith("LossCurvature(d=5, cross-entropy at 150 samples, 2 models, slope 0.")
    own = loss_curvature(nets[0], X, LABELS[2], loss=lambda f, y: F.cross_entropy(f, y, reduction="sum"))
    torch.testing.assert_close(own.matvec(I), loss_curvature(nets[0], X, LABELS[2]).matvec(I))


def test_data_of_their_own_move_the_weights() -> None:
    net, y = network(2), LABELS[2]
    train = (X[:1], y[:1])
    found = loss_curvature(net, X, y, train=train)
    assert isinstance(found, LossCurvature)
    assert not torch.allclose(found.third(I), loss_curvature(net, X, y).third(I))
    torch.testing.assert_close(loss_curvature(net, X, y, train=(X, y)).third(I), loss_curvature(net, X, y).third(I))


def test_left_as_found() -> None:
    net = network(2)
    net(X).sum().backward()
    before = [(p.clone(), p.grad.clone()) for p in net.parameters()]
    found = loss_curvature(net, X, LABELS[2])
    assert found.gap > 0
    assert found.rate_gap > 0
    for p, (v, g) in zip(net.parameters(), before, strict=True):
        assert torch.equal(p, v)
        assert torch.equal(p.grad, g)
        assert p.requires_grad


def test_bad_input_is_one_sentence() -> None:
    net, y = network(2), LABELS[2]
    for message, call in {
        "expected one label per sample, 3 of them": lambda: loss_curvature(net, X, y[:2]),
        "expected whole-number labels": lambda: loss_curvature(net, X, y.double()),
        "expected at least one sample": lambda: loss_curvature(net, X[:0], y[:0]),
        "at least one model": lambda: loss_curvature([], X, y),
        "at least two random vectors": lambda: loss_curvature(net, X, y, vectors=1),
        "a sum over samples, found": lambda: loss_curvature(net, X, y, loss=lambda f, y: F.cross_entropy(f, y)),
        "does not depend on the model's outputs": lambda: loss_curvature(net, X, y, loss=lambda f, y: y.sum() * 1.0),
        r"expected vectors of shape \(…, 5\), found \(4,\)": lambda: loss_curvature(net, X, y).matvec(torch.ones(4)),
        "call model.eval": lambda: loss_curvature(nn.Sequential(nn.BatchNorm1d(D), nn.Linear(D, 2)).double(), X, y),
    }.items():
        with pytest.raises(NetgrainError, match=message):
            call()
