"""Published scores against closed forms and slow loops."""

import math

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability import proxies

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
Y = torch.randint(3, (12,), generator=torch.Generator().manual_seed(1))


def net(*, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 20, bias=bias), nn.ReLU(), nn.Linear(20, 3, bias=bias))


def test_naswot_counts_units_that_agree() -> None:
    model = net()
    on = (model[0](X) > 0).tolist()
    K = [[float(sum(a == b for a, b in zip(p, q, strict=True))) for q in on] for p in on]
    expected = torch.linalg.slogdet(torch.tensor(K, dtype=torch.float64)).logabsdet
    assert proxies.naswot(model, X) == pytest.approx(float(expected))
    assert math.isnan(proxies.naswot(nn.Linear(5, 3), X))


def test_jacob_cov_of_a_linear_map() -> None:
    """All gradients are the same, so the correlations are all 1: one eigenvalue 12, eleven zeros."""
    k = proxies.JITTER
    expected = -(math.log(12 + k) + 1 / (12 + k) + 11 * (math.log(k) + 1 / k))
    assert proxies.jacob_cov(nn.Linear(5, 3), X) == pytest.approx(expected, rel=1e-6)


def test_jacob_cov_of_a_network_is_that_of_its_gradients() -> None:
    model = net().double()
    rows = torch.stack([torch.autograd.functional.jacobian(lambda x: model(x).sum(), x) for x in X.double()])
    values = torch.linalg.eigvalsh(torch.corrcoef(rows)).clamp(min=0) + proxies.JITTER
    assert proxies.jacob_cov(model, X.double()) == pytest.approx(-float((values.log() + 1 / values).sum()), rel=1e-6)


def test_synflow_of_two_layers() -> None:
    """R = Σ |W₂||W₁|1 is linear in each layer, so either adds R."""
    model = net(bias=False)
    R = float((model[2].weight.abs() @ (model[0].weight.abs() @ torch.ones(5))).sum().detach())
    assert proxies.synflow(model, (5,)) == pytest.approx(math.log10(2 * R), abs=1e-6)


def test_gradient_norm_of_a_softmax_regression() -> None:
    """∂L/∂W = (p − y)ᵀX / n and ∂L/∂b = mean (p − y)."""
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    with torch.no_grad():
        wrong = model(X).softmax(1) - nn.functional.one_hot(Y, 3)
    expected = float((wrong.T @ X / 12).norm() + wrong.mean(0).norm())
    assert proxies.gradient_norm(model, X, Y) == pytest.approx(expected, rel=1e-5)


def test_parameters_are_counted() -> None:
    assert proxies.parameters(net()) == pytest.approx(math.log10(6 * 20 + 21 * 3))


def test_models_are_left_alone() -> None:
    model = net().eval()
    for p in model.parameters():
        p.requires_grad_(False)
    before = [p.clone() for p in model.parameters()]
    proxies.naswot(model, X), proxies.jacob_cov(model, X), proxies.synflow(model, (5,))
    proxies.gradient_norm(model, X, Y)
    assert all(torch.equal(a, b) and not b.requires_grad for a, b in zip(before, model.parameters(), strict=True))
    assert not model.training
    assert not model[1]._forward_hooks


def test_neighbours_against_a_loop() -> None:
    right = 0
    for i in range(12):
        order = sorted((j for j in range(12) if j != i), key=lambda j: float((X[i] - X[j]).double().norm()))[:3]
        votes = {c: sum(1 + 0.01 * (3 - r) / 3 for r, j in enumerate(order) if int(Y[j]) == c) for c in range(3)}
        right += max(votes, key=lambda c: votes[c]) == int(Y[i])
    assert proxies.neighbours(X, Y, 3) == pytest.approx(right / 12)


def test_neighbours_and_a_linear_rule_see_what_they_can() -> None:
    """Two far clusters are easy for both; the sign of a product is nothing to a linear rule."""
    generator = torch.Generator().manual_seed(2)
    y = torch.arange(200) % 2
    far = torch.randn(200, 3, generator=generator) + 10 * y[:, None]
    assert proxies.neighbours(far, y) == proxies.linear_rule(far, y) == 1.0
    x = torch.rand(400, 2, generator=generator) - 0.5
    product = (x[:, 0] * x[:, 1] > 0).long()
    assert proxies.neighbours(x, product) > 0.9
    assert proxies.linear_rule(x, product) < 0.62
