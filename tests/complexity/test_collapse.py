"""Neural collapse, and its bound by geometric complexity."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from netgrain.complexity.collapse import neural_collapse
from netgrain.runtime.errors import NetgrainError
from tests.complexity.test_certificates import SPREADS, classifier, gaussian_classes, mlp, noise


def jacobians(net: nn.Module, X: Tensor) -> Tensor:
    """(n, k, d), by torch's own reverse mode."""
    return torch.stack([jacobian(lambda x: net(x[None])[0].flatten(), x).reshape(-1, x.numel()) for x in X])


def test_collapse_against_a_slow_loop() -> None:
    net = classifier()
    X, y = gaussian_classes(30, seed=5)
    X, y = X[10:], y[10:]  # classes of different size
    found = neural_collapse(net, X, y, "1", poincare={0: 1.0, 1: 2.0, 2: 3.0})
    phi = net[:2](X).detach()
    means = [phi[y == c].mean(0) for c in range(3)]
    variances = [float((phi[y == c] - means[c]).square().sum(1).mean()) for c in range(3)]
    steep = [float(jacobians(net[:2], X[y == c]).square().sum((1, 2)).mean()) for c in range(3)]
    for i in range(3):
        for j in range(3):
            distance = float((means[i] - means[j]).square().sum())
            cdnv = 0 if i == j else (variances[i] + variances[j]) / (2 * distance)
            collapse = 0 if i == j else ((i + 1) * steep[i] + (j + 1) * steep[j]) / (2 * distance)
            assert math.isclose(float(found.pairs_cdnv[i, j]), cdnv, abs_tol=1e-12)
            assert math.isclose(float(found.pairs_geometric[i, j]), collapse, abs_tol=1e-12)
        bound = sum(4 * variances[i] / float((means[i] - m).square().sum()) for j, m in enumerate(means) if j != i)
        assert math.isclose(float(found.class_bound[i]), min(1.0, bound))
    assert math.isclose(found.cdnv, float(found.pairs_cdnv.sum()) / 6)
    assert math.isclose(found.embedding_gc, float(jacobians(net[:2], X).square().sum((1, 2)).mean()))
    nearest = torch.stack([(phi - m).norm(dim=1) for m in means]).argmin(0)
    assert math.isclose(found.ncc_accuracy, float((nearest == y).double().mean()))


def test_collapse_is_below_geometric_collapse_for_gaussian_classes() -> None:
    constants = dict(enumerate((SPREADS**2).tolist()))
    X, y = gaussian_classes(4000, seed=6)
    for seed, layer in ((0, "0"), (0, "1"), (1, "1"), (2, None)):
        found = neural_collapse(classifier(seed), X, y, layer, poincare=constants)
        off = ~torch.eye(3, dtype=torch.bool)
        assert bool((found.pairs_cdnv < found.pairs_geometric)[off].all())
        assert 0 < found.cdnv < found.geometric_collapse
    # a linear map along the widest axis of isotropic classes: equality
    line = nn.Linear(1, 1).double()
    X = torch.cat([noise(50_000, 1, seed=7), 10 + noise(50_000, 1, seed=8)])
    found = neural_collapse(line, X, torch.arange(2).repeat_interleave(50_000), None, poincare=1.0)
    assert abs(found.cdnv / found.geometric_collapse - 1) < 4 * math.sqrt(2 / 100_000)


def test_chebyshev_holds_on_every_sample() -> None:
    for seed in range(10):
        X, y = noise(60, 2, seed=seed), torch.arange(60) % 3
        X = X + 2.5 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)[y] * (1 + seed)
        found = neural_collapse(mlp(2, 6, 4, seed=seed), X, y, "0")
        assert bool((found.class_error <= found.class_bound).all())
        assert 1 - found.ncc_accuracy <= found.chebyshev_bound
    assert found.chebyshev_bound < 0.5  # not by saying nothing


def test_collapse_of_what_is_no_classification() -> None:
    X, y = gaussian_classes(3, seed=0)
    with pytest.raises(NetgrainError, match="two classes"):
        neural_collapse(mlp(3, 3), X, y * 0, None)
    with pytest.raises(NetgrainError, match="same mean"):
        neural_collapse(mlp(3, 3), X[:1].expand(9, 3), y, None)
    with pytest.raises(NetgrainError, match="layer"):
        neural_collapse(mlp(3, 3), X, y, "head")
