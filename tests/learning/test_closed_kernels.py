"""Kernels by closed form against recursions written out, and against sampled networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.reading import read
from netgrain.families.trace import Unsupported
from netgrain.learning.closed_kernels import closed_kernel
from netgrain.runtime.memory import within
from tests import naive

WEIGHT, BIAS = 2.0, 0.1  # variances: of weights times their fan-in, of biases


def normal(*layers: nn.Module) -> nn.Module:
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
            nn.init.normal_(layer.weight, 0, (WEIGHT / layer.weight[0].numel()) ** 0.5)
            nn.init.normal_(layer.bias, 0, BIAS**0.5)
    return nn.Sequential(*layers)


def dense(width: int = 32) -> nn.Module:
    return normal(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))


def convolutional(pooled: bool, width: int = 16) -> nn.Module:
    end = [nn.AvgPool1d(3), nn.Flatten(), nn.Linear(width, 2)] if pooled else [nn.Flatten(), nn.Linear(3 * width, 2)]
    first, second = nn.Conv1d(2, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
    return normal(first, nn.ReLU(), second, nn.ReLU(), *end)


def images(width: int = 16) -> nn.Module:
    first, second = nn.Conv2d(1, width, 3, stride=2, padding=1), nn.Conv2d(width, width, 2)
    return normal(first, nn.ReLU(), second, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2))


def samples(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


LAYERS = [(16, 3, 1, 1), (16, 3, 2, 1)]
X5, X26 = samples(4, 5), samples(3, 2, 6)
CASES: dict[str, tuple[Callable[[], nn.Module], Tensor, tuple[Tensor, Tensor]]] = {
    "dense": (dense, X5, naive.dense_kernels(X5, [32, 32], WEIGHT, BIAS, 3)),
    "flattened": (partial(convolutional, False), X26, naive.convolutional_kernels(X26, LAYERS, WEIGHT, BIAS, 2, False)),
    "pooled": (partial(convolutional, True), X26, naive.convolutional_kernels(X26, LAYERS, WEIGHT, BIAS, 2, True)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_arc_cosine_recursions(name: str) -> None:
    make, X, (features, tangent) = CASES[name]
    for kind, exact in (("last", features), ("tangent", tangent)):
        K = ng.kernel(make, X, kind=kind, method="closed-form", normalise=False)
        torch.testing.assert_close(K.matrix, exact, rtol=1e-9, atol=1e-9)
        assert K.parts is None
        assert K.members == 0
        assert K.relative_error == 0
        cut = ng.kernel(make, X[:2], X[1:], kind=kind, method="closed-form", normalise=False)
        torch.testing.assert_close(cut.matrix, exact[:2, 1:], rtol=1e-7, atol=1e-7)  # √ε where two samples are equal


@pytest.mark.parametrize("kind", ["last", "tangent"])
@pytest.mark.parametrize("other", [False, True])
def test_in_blocks_of_samples_that_fit_the_memory(kind: str, other: bool) -> None:
    X = samples(9, 2, 6)
    reading = read(partial(convolutional, True), (2, 6))
    Z = X[:5] if other else None
    whole = closed_kernel(reading, X, Z, kind, cheap=False)
    with within("1 MB"):  # 102 positions, so that 17 samples fit, and five pieces of two
        some = closed_kernel(reading, X, Z, kind, cheap=False)
    torch.testing.assert_close(some.matrix, whole.matrix)
    assert some.mean_diagonal == pytest.approx(whole.mean_diagonal)


def _agrees(make: Callable[[], nn.Module], X: Tensor, kind: str, members: int) -> None:
    exact = ng.kernel(make, X, kind=kind, method="closed-form", normalise=False)
    sampled = ng.kernel(make, X, kind=kind, members=members, normalise=False, engine="local", chunk=50)
    assert bool(((sampled.matrix - exact.matrix).abs() <= 4 * sampled.stderr).all())


@pytest.mark.parametrize("kind", ["last", "tangent"])
def test_sampled_networks(kind: str) -> None:
    _agrees(partial(images, 48), samples(3, 1, 5, 5).float(), kind, 60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["last", "tangent"])
@pytest.mark.parametrize(
    ("make", "X"),
    [(partial(dense, 128), X5), (partial(images, 128), samples(3, 1, 5, 5))],
    ids=["dense", "images"],
)
def test_four_thousand_sampled_networks(make: Callable[[], nn.Module], X: Tensor, kind: str) -> None:
    _agrees(make, X.float(), kind, 4000)


def test_linear_features_are_exact_at_any_width() -> None:
    """E[W x · W z] = width · variance · x·z."""
    K = ng.kernel(lambda: nn.Sequential(nn.Linear(5, 2, bias=False), nn.Linear(2, 1)), X5, kind="last", normalise=False)
    assert K.method == "closed-form"
    assert K.about.exact
    torch.testing.assert_close(K.matrix, 2 / 15 * X5 @ X5.T)


def test_auto_samples_what_has_no_rule_or_is_narrow() -> None:
    cases = {
        "no formula": lambda: nn.Sequential(
            nn.Conv1d(2, 8, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(16, 2)
        ),
        "not normal": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)),
        "calibrated": lambda: nn.Sequential(nn.Conv1d(2, 8, 3), nn.BatchNorm1d(8), nn.Flatten(), nn.Linear(32, 1)),
    }
    for text, make in cases.items():
        K = ng.kernel(make, X26, kind="last")
        assert K.method == "sampled"
        assert text in K.about.remarks[0]
        assert K.members == 16


def test_messages() -> None:
    with pytest.raises(ng.NetgrainError, match="there is no closed form: features of every layer"):
        ng.kernel(dense, X5, method="closed-form")
    normed = lambda: normal(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))  # noqa: E731
    with pytest.raises(ng.NetgrainError, match=r"gradients by '1.weight' have no rule"):
        ng.kernel(normed, X5, kind="tangent", method="closed-form")
    with pytest.raises(Unsupported, match="moments a layer"):
        closed_kernel(read(images, (1, 40, 40)), torch.randn(400, 1, 40, 40), None, "last", cheap=True)
