"""Variants of geometric complexity: gauges, layers, classes, margins, and all at once."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.complexity import (
    agop,
    complexities,
    geometric_complexity,
    margin_complexity,
    normalised_complexity,
    per_class_complexity,
    per_layer_complexity,
)
from netgrain.complexity.variants import margins
from netgrain.runtime.errors import NetgrainError
from tests import naive

D, K = 6, 4


class Function(nn.Module):
    """A function as a module without parameters."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def points(n: int = 9, *shape: int, seed: int = 1) -> Tensor:
    return torch.randn(n, *(shape or (D,)), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(k: int = K, seed: int = 0, activation: Callable[[], nn.Module] = nn.Tanh, d: int = D) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(d, 8), activation(), nn.Linear(8, 7), activation(), nn.Linear(7, k))
    return nn.Sequential(*layers).double().eval()


def linear(W: Tensor) -> nn.Linear:
    layer = nn.Linear(W.shape[1], W.shape[0]).double()
    layer.weight.data.copy_(W)
    return layer


def close(a: float, b: float, rel: float = 1e-9) -> None:
    assert float(a) == pytest.approx(float(b), rel=rel, abs=1e-13)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_gauges(scale: float) -> None:
    """Each variant against its definition with dense Jacobians, and the inequalities between them."""
    net, X = network(), points()
    with torch.no_grad():
        net[4].weight.mul_(scale)
    expected = dict.fromkeys(("logits", "softmax", "log-softmax", "centred", "fisher"), 0.0)
    cross = 0.0
    for x in X:
        J = naive.jacobian(net, x)
        p = net(x[None])[0].detach().softmax(0)
        M = torch.diag(p) - torch.outer(p, p)
        C = torch.eye(K, dtype=torch.float64) - 1 / K
        for kind, J_kind in {
            "logits": J,
            "softmax": M @ J,
            "log-softmax": J - p @ J,
            "centred": C @ J,
        }.items():
            expected[kind] += float(J_kind.square().sum()) / len(X)
        expected["fisher"] += float((J.T @ M @ J).trace()) / len(X)
        cross += sum(float((J[i] - J[j]).square().sum()) for i in range(K) for j in range(i)) / len(X)
    for estimator in ("exact", "forward"):
        for kind, value in expected.items():
            close(geometric_complexity(net, X, of=kind, estimator=estimator), value)
    together = complexities(net, X)
    for kind in ("logits", "softmax", "centred", "fisher"):
        close(getattr(together, kind), expected[kind])
    assert together.softmax <= together.logits / 4
    assert together.centred <= together.logits
    close(cross, K * together.centred)  # the cross-Lipschitz penalty
    probed = complexities(net, X, estimator="vjp", rel_error=0.01)
    assert probed.fisher.estimator == "vjp"
    assert abs(probed.fisher - expected["fisher"]) < 5 * probed.fisher.stderr
    # a common shift of the logits is seen by the first alone
    shifted = Function(lambda x: net(x) + x.square().sum(1, keepdim=True))
    close(geometric_complexity(shifted, X, of="centred"), expected["centred"])
    close(geometric_complexity(shifted, X, of="fisher"), expected["fisher"])
    assert geometric_complexity(shifted, X) > 1.1 * expected["logits"] or scale == 30.0


def test_trace_of_the_geometry_over_data() -> None:
    net, X = network().float(), points().float()
    gc = geometric_complexity(net, X)
    close(agop(net, X).trace, gc, 1e-5)
    close(ng.geometry_of([net], ng.Data(X)).trace, gc, 1e-5)


def test_layers() -> None:
    net, X = network(40), points()
    for name, end in (("0", 1), ("3", 4), ("4", 5)):
        close(geometric_complexity(net, X, layer=name), naive.complexity(net[:end], X))
    found = per_layer_complexity(net, X)
    assert list(found.parts) == ["0", "1", "2", "3", "4"]
    close(found["4"], naive.complexity(net, X))
    assert repr(found).splitlines()[1].startswith("  0  ")
    close(per_layer_complexity(net, X, ["2"])["2"], naive.complexity(net[:3], X))

    class Reused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.act, self.unused = (
                nn.Linear(D, 5),
                nn.Linear(5, 3),
                nn.ReLU(inplace=True),
                nn.Linear(2, 2),
            )

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.b(self.act(self.a(x))))

    reused, x = Reused(), points().float()
    found = per_layer_complexity(reused, x)
    assert list(found.parts) == ["a", "b"]
    assert found.skipped["act"] == "layer 'act' is applied 2 times in one pass"
    assert found.skipped["unused"] == "layer 'unused' is applied never in one pass"
    close(
        found["a"], float(reused.a.weight.detach().square().sum()), 1e-5
    )  # what the in-place ReLU makes of it comes later
    with pytest.raises(NetgrainError, match=r"layer 'act' is applied 2 times in one pass; expected once"):
        per_layer_complexity(reused, x, ["act"])


def test_classes_add_up() -> None:
    net, X, y = network(), points(), torch.tensor([0, 2, 2, 0, 0, 2, 0, 0, 0])
    found = per_class_complexity(net, X, y)
    assert list(found.parts) == ["0", "2"]
    close(found[0], naive.complexity(net, X[y == 0]))
    close(found[2], naive.complexity(net, X[y == 2]))
    close((6 * found[0] + 3 * found[2]) / 9, geometric_complexity(net, X))
    named = per_class_complexity(net, X, y, classes=("cat", "dog", "cow"), estimator="vjp", vectors=1)
    assert abs(named["cow"] - found[2]) < 6 * named["cow"].stderr
    with pytest.raises(NetgrainError, match="class 'cew' is not known; did you mean 'cow'"):
        named["cew"]


def test_margins() -> None:
    net, X = network(3), points(40)
    outputs = net(X).detach()
    y = outputs.argmax(1)
    slow = torch.stack([f[c] - max(f[j] for j in range(3) if j != c) for f, c in zip(outputs, y.tolist(), strict=True)])
    torch.testing.assert_close(margins(outputs, y), slow)
    for quantile in (0.1, 0.5):
        found = margin_complexity(net, X, y, quantile=quantile)
        gamma = float(slow.quantile(quantile))
        close(found.gamma, gamma)
        close(found.value, geometric_complexity(net, X) / gamma**2)
        assert found.wrong == 0
    # a network ten times as sure of itself is not more complex
    louder = Function(lambda x: 10 * net(x))
    close(margin_complexity(louder, X, y).value, margin_complexity(net, X, y).value)
    wrong = margin_complexity(net, X, outputs.argmin(1))
    assert wrong.value == math.inf
    assert wrong.note.startswith("the 50% quantile of the margins is -")
    assert wrong.note.endswith("not above zero: with 100% of the points wrong there is no margin to divide by")
    assert wrong.as_dict()["value"] is None
    one = margin_complexity(Function(lambda x: x[:, 0]), X, (X[:, 0] > 0).long())
    close(one.gamma, float(X[:, 0].abs().quantile(0.5)))


def test_all_variants_agree_with_each_alone() -> None:
    net, X = network(), points()
    y = net(X).argmax(1)
    found = complexities(net, X, y)
    close(found.per_variance, normalised_complexity(net, X))
    close(found.per_margin.value, margin_complexity(net, X, y).value)
    assert found.per_class.as_dict().keys() == per_class_complexity(net, X, y).as_dict().keys()
    close(found.per_variance, naive.complexity(net, X) / float(net(X).detach().var(0, correction=0).sum()))
    assert "per margin" in repr(found)
    single = complexities(network(1), X)
    assert single.softmax is None
    assert list(single.variants()) == ["logits", "per_variance"]
    assert complexities(linear(torch.zeros(2, D)), X).per_variance is None


def test_spread_of_the_normalised_value_over_data() -> None:
    """population_stderr of a quotient against the spread of it over fresh data sets."""
    net = network(2)
    found = [normalised_complexity(net, points(400, seed=s)) for s in range(60)]
    spread = float(np.std([float(v) for v in found], ddof=1))
    assert np.mean([v.population_stderr for v in found]) == pytest.approx(spread, rel=0.3)
