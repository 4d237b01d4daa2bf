"""Geometric complexity: closed forms, invariances, inequalities, other ways to differentiate, error bars, messages."""

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.complexity import (
    Complexity,
    complexities,
    geometric_complexity,
    margin_complexity,
    normalised_complexity,
    per_class_complexity,
    per_layer_complexity,
)
from netgrain.complexity.estimators import Effort, squared_norms
from netgrain.complexity.functions import map_of
from netgrain.models import ResNet18
from netgrain.runtime.errors import NetgrainError
from tests import naive

ESTIMATORS = ("exact", "forward", "vjp", "jvp", "outputs")


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


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_affine_identity_constant(estimator: str) -> None:
    gc = partial(geometric_complexity, X=points(), estimator=estimator)
    W = points(K, D, seed=3)
    exact = estimator in ("exact", "forward")
    found = gc(linear(W), vectors={"vjp": 300, "jvp": 300, "outputs": 3}.get(estimator))
    close(found, float(W.square().sum()), 1e-9 if exact else 0.1)
    assert (found.stderr == 0) == exact
    # for the identity A is diagonal, so that every sign vector gives the trace itself
    found = gc(nn.Identity())
    close(found, D)
    assert found.stderr == 0
    assert gc(linear(torch.zeros(K, D))) == 0


def test_half_squared_norm() -> None:
    X = points()
    close(geometric_complexity(Function(lambda x: x.square().sum(1) / 2), X), float(X.square().sum(1).mean()))


def test_wave_with_a_uniform_phase() -> None:
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    phases = torch.arange(64, dtype=torch.float64) * (2 * math.pi / 64)
    X = phases[:, None] * w / w.square().sum() + torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)  # second is ⟂ w
    wave = Function(lambda x: 7 * torch.sin(x @ w))
    close(geometric_complexity(wave, X), 49 * float(w.square().sum()) / 2)
    close(normalised_complexity(wave, X), float(w.square().sum()))


def he(fan_in: int, fan_out: int) -> float:
    return 2 / fan_in


def lecun(fan_in: int, fan_out: int) -> float:
    return 1 / fan_in


def glorot(fan_in: int, fan_out: int) -> float:
    return 2 / (fan_in + fan_out)


def torch_default(fan_in: int, fan_out: int) -> float:
    return 1 / (3 * fan_in)


@pytest.mark.parametrize("law", [he, lecun, glorot, torch_default])
def test_relu_network_at_initialisation(law: Callable[[int, int], float]) -> None:
    """E GC = d ∏(s_l² n_l) 2^{−(L−1)}, exact at any width and depth."""
    sizes, X = (6, 24, 16, 5), points(3, 6).float()
    expected = 6 * math.prod(law(a, b) * b for a, b in pairwise(sizes)) / 2 ** (len(sizes) - 2)
    if law is he:
        close(expected, 2 * 5)
    found = []
    torch.manual_seed(0)
    for _ in range(120):
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
            if law is not torch_default:  # torch's own initialisation is left as it is
                nn.init.normal_(layers[-2].weight, std=math.sqrt(law(a, b)))
                nn.init.zeros_(layers[-2].bias)
        found.append(geometric_complexity(nn.Sequential(*layers[:-1]), X).value)
    mean, error = np.mean(found), np.std(found, ddof=1) / math.sqrt(len(found))
    assert abs(mean - expected) < 4 * error
    assert error < 0.2 * expected


def test_random_fourier_features() -> None:
    """A Gaussian process with the RBF kernel of lengthscale l has E GC = d / l²."""
    l, found = 0.7, []
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    for _ in range(100):
        w, b, a = draw(100, D) / l, 2 * math.pi * torch.rand(100, generator=generator), draw(100)
        wave = Function(lambda x, w=w, b=b, a=a: math.sqrt(2 / 100) * torch.cos(x @ w.T + b) @ a)
        found.append(geometric_complexity(wave, points(2)).value)
    assert abs(np.mean(found) - D / l**2) < 4 * np.std(found, ddof=1) / math.sqrt(100)


def test_ridge_regression_gets_simpler() -> None:
    from sklearn.linear_model import Ridge

    X = points(40)
    y = X[:, 0] + 0.5 * points(40, 1, seed=2)[:, 0]
    found = []
    for alpha in (0.0, 0.1, 1.0, 10.0, 1000.0):
        coef = Ridge(alpha=alpha).fit(X.numpy(), y.numpy()).coef_
        found.append(geometric_complexity(linear(torch.from_numpy(coef)[None]), X))
        close(found[-1], np.square(coef).sum())
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.01 * found[0]


def test_gaussian_poincare() -> None:
    """Var f ≤ λ_max(Σ) GC for x ~ N(0, Σ), with equality along the top eigenvector."""
    sd = torch.tensor([2.0, 1.0, 0.5, 1.0, 0.1, 1.5], dtype=torch.float64)
    X = points(20000) * sd
    net = network(1)
    f = net(X).detach()
    assert float(f.var()) < 4 * geometric_complexity(net, X)
    along = linear(torch.eye(D, dtype=torch.float64)[:1])
    close(float(along(X).detach().var()), 4 * geometric_complexity(along, X), 0.05)


def test_interpolation_by_straight_lines_is_simplest() -> None:
    """Any interpolant on [a, b] has GC_u ≥ Σ dy²/dx / (b − a), reached by straight lines."""
    x = torch.tensor([0.0, 0.5, 0.75, 2.0], dtype=torch.float64)
    y = torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    slopes = y.diff() / x.diff()
    kinks = torch.cat([slopes[:1], slopes.diff()])
    lines = Function(lambda t: y[0] + torch.relu(t - x[:-1]) @ kinks)
    grid = ((torch.arange(4000, dtype=torch.float64) + 0.5) * (2 / 4000))[:, None]  # no grid point on a kink
    least = float((y.diff().square() / x.diff()).sum()) / 2
    torch.testing.assert_close(lines.function(x[:, None]), y)
    close(geometric_complexity(lines, grid), least)
    bump = Function(lambda t: lines.function(t) + 0.3 * (t - x).prod(1))
    torch.testing.assert_close(bump.function(x[:, None]), y)
    assert geometric_complexity(bump, grid) > 1.001 * least


def test_reparametrisation_changes_nothing() -> None:
    net, X = network(activation=nn.ReLU), points()
    before = geometric_complexity(net, X)
    other = copy.deepcopy(net)
    order = torch.randperm(8)
    with torch.no_grad():
        for p in (other[0].weight, other[0].bias):
            p.mul_(5.0)
        other[2].weight.div_(5.0)
        other[0].weight.copy_(other[0].weight[order])
        other[0].bias.copy_(other[0].bias[order])
        other[2].weight.copy_(other[2].weight[:, order])
    close(geometric_complexity(other, X), before)


def test_shift_scale_rotation_duplicates() -> None:
    net, X = network(), points()
    gc = geometric_complexity(net, X)
    U, V = (torch.linalg.qr(points(n, n, seed=n))[0] for n in (K, D))
    close(geometric_complexity(Function(lambda x: net(x) + 17), X), gc)
    close(geometric_complexity(Function(lambda x: 3 * net(x)), X), 9 * gc)
    close(geometric_complexity(Function(lambda x: net(x / 3)), 3 * X), gc / 9)
    close(geometric_complexity(Function(lambda x: net(x @ V.T) @ U.T), X @ V), gc)
    close(geometric_complexity(net, torch.cat([X, X])), gc)
    assert geometric_complexity(Function(lambda x: 2 * net(x)), X) > 1.5 * gc


def test_seminorm_and_ensembles() -> None:
    X = points()
    nets = [network(seed=s) for s in range(5)]
    roots = [math.sqrt(geometric_complexity(net, X)) for net in nets]
    both = geometric_complexity(Function(lambda x: nets[0](x) + nets[1](x)), X)
    assert abs(roots[0] - roots[1]) <= math.sqrt(both) <= roots[0] + roots[1]
    mean = geometric_complexity(Function(lambda x: sum(net(x) for net in nets) / 5), X)
    assert mean < sum(r**2 for r in roots) / 5


def test_numpy_on_scikit_learn() -> None:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged
        fitted = MLPClassifier((12,), max_iter=15, random_state=0).fit(X, y)
    (W1, W2), (b1, b2) = fitted.coefs_, fitted.intercepts_
    gates = X @ W1 + b1 > 0
    J = np.einsum("hk,nh,dh->nkd", W2, gates, W1)
    net = nn.Sequential(linear(torch.from_numpy(W1.T)), nn.ReLU(), linear(torch.from_numpy(W2.T)))
    net[0].bias.data.copy_(torch.from_numpy(b1))
    net[2].bias.data.copy_(torch.from_numpy(b2))
    close(geometric_complexity(net, torch.from_numpy(X)), np.square(J).sum() / len(X), 1e-12)


@pytest.mark.parametrize("kind", ["vjp", "jvp", "outputs"])
@pytest.mark.parametrize("m", [1, 3])
def test_variance_of_probes(kind: str, m: int) -> None:
    """Copies of one point have independent probes: their spread is the variance the formulas promise."""
    net, x = network(), points(1)
    J = naive.jacobian(net, x[0])
    A = J @ J.T if kind == "vjp" else J.T @ J
    off = A - torch.diag(A.diagonal())
    expected = 2 * float(off.square().sum()) / m
    if kind == "outputs":
        expected = K**2 * (1 - m / K) * float(J.square().sum(1).var()) / m
    else:
        close(expected * m, naive.probe_variance(A))  # the formula, by listing all sign vectors
    with map_of(net, x.expand(20000, -1)) as f:
        found = squared_norms(f, Effort(kind, vectors=m))
    assert float(found.values.mean()) == pytest.approx(float(J.square().sum()), rel=0.02)
    assert float(found.values.var()) == pytest.approx(expected, rel=0.05)
    assert found.error()[0] ** 2 * 20000 == pytest.approx(expected, rel=0.1 if m == 1 else 0.05)


@pytest.mark.parametrize(("kind", "m"), [("vjp", 1), ("vjp", 2), ("jvp", 1), ("outputs", 3), ("outputs", 1)])
def test_error_bar_covers_the_exact_value(kind: str, m: int) -> None:
    """95 % intervals hold the exact GC on these points in 90 to 99 % of 300 repetitions, though points differ a lot."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 40)).eval()
    X = points(80, 20).float() * torch.linspace(0.05, 4, 80)[:, None]
    exact = geometric_complexity(net, X, estimator="exact")
    inside, z = 0, []
    with map_of(net, X) as f:
        for seed in range(300):
            found = squared_norms(f, Effort(kind, vectors=m, seed=seed)).mean("logits", "")
            low, high = found.interval(0.95)
            inside += low <= exact <= high
            z.append((found - exact) / found.stderr)
    assert 270 <= inside <= 297
    assert abs(np.mean(z)) < 0.25  # unbiased
    close(exact.population_stderr, float(found_norms(net, X).std()) / math.sqrt(80), 1e-5)


def found_norms(net: nn.Module, X: Tensor) -> Tensor:
    return torch.stack([naive.jacobian(net, x).square().sum() for x in X])


def test_auto_chooses_by_size_and_reaches_its_error() -> None:
    gc = partial(geometric_complexity, X=points(30, 100, seed=2))
    assert gc(network(16, d=100)).estimator == "exact"
    found = gc(network(17, d=100), rel_error=0.2)
    assert found.estimator == "vjp"
    assert found.vectors == 2
    narrow = geometric_complexity(network(17), points())
    assert narrow.estimator == "forward"  # d = 6 < k = 17
    wide = network(200, d=100)
    exact = gc(wide, estimator="exact")
    for rel_error in (0.05, 0.02):
        found = gc(wide, rel_error=rel_error)
        assert found.estimator == "vjp"
        assert 2 <= found.vectors < 200
        assert found.stderr <= rel_error * found
        assert abs(found - exact) < 4 * found.stderr
    assert gc(wide, rel_error=1e-5).estimator == "exact"  # as many probes as outputs would not do


def test_all_outputs_are_exact() -> None:
    net, X = network(), points()
    found = geometric_complexity(net, X, estimator="outputs", vectors=K)
    close(found, geometric_complexity(net, X))
    assert found.stderr == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_batches_and_places_do_not_matter(estimator: str) -> None:
    net, X = network(), points(150)
    gc = partial(geometric_complexity, net, estimator=estimator, vectors=None if estimator in ESTIMATORS[:2] else 1)
    whole = gc(X)
    for batch in (1, 7, 64, 1000):
        part = gc(X, batch=batch)
        close(part, whole, 1e-12)
        close(part.stderr, whole.stderr, 1e-9)
    assert gc(X, seed=0) == whole
    if estimator in ESTIMATORS[2:]:
        assert gc(X, seed=1) != whole
        with map_of(net, X) as f, map_of(net, X[:70]) as fewer:  # the probes of a point are its own
            values = [squared_norms(g, Effort(estimator, vectors=1)).values[:70] for g in (f, fewer)]
        torch.testing.assert_close(*values)


def test_result_is_a_number_with_a_history() -> None:
    found = geometric_complexity(network(40, d=100), points(30, 100), vectors=1, seed=3, of="softmax")
    assert isinstance(found, float)
    assert isinstance(found, ng.Estimate)
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):  # noqa: S301
        assert isinstance(twin, Complexity)
        assert twin == found
        assert twin.as_dict() == found.as_dict()
    assert found.as_dict()["estimator"] == "vjp"
    assert found.as_dict()["inputs"].startswith("30 points 100 as given, mean ")
    assert str(found).endswith(f"(vjp, 1 vector; softmax; {found.inputs})")
    assert geometric_complexity(network(), points(1)).as_dict()["population_stderr"] is None
    assert geometric_complexity(network(), points(4, D) * 1e-3 + 5).inputs == "4 points 6 as given, mean 5, sd 0.00097"


class Root(nn.Module):
    """Its slope at 0 is infinite."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sqrt()


class Mixing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Wrapped(nn.Module):
    def __init__(self, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.inner, self.wrap = network(), wrap

    def forward(self, x: Tensor) -> object:
        return self.wrap(self.inner(x))


BROKEN = network()
BROKEN[2].bias.data[1] = math.nan


AT_ZERO = points()
AT_ZERO[4, 2] = AT_ZERO[7, 0] = 0


WITH_NAN = points()
WITH_NAN[3, 1] = math.nan


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "whole numbers": (
        lambda: geometric_complexity(network(), torch.ones(3, D, dtype=torch.long)),
        r"X holds whole numbers \(torch.int64\), expected floating-point samples; convert images",
    ),
    "nothing": (
        lambda: geometric_complexity(network(), points()[:0]),
        r"X has shape \(0, 6\), expected at least one sample",
    ),
    "one vector": (
        lambda: geometric_complexity(network(), points()[0]),
        r"shape \(6,\), .*; one sample alone is X\[None\]",
    ),
    "NaN": (lambda: geometric_complexity(network(), WITH_NAN), "1 NaN, 0 Inf.*first in sample 3 at entry 1"),
    "no module": (lambda: geometric_complexity(torch.tanh, points()), "found the function tanh"),
    "weights": (lambda: geometric_complexity(BROKEN, points()), "NaN or Inf in parameter '2.bias'"),
    "batch norm": (
        lambda: geometric_complexity(nn.Sequential(nn.Linear(D, 3), nn.BatchNorm1d(3)).double(), points()),
        r"'1' \(BatchNorm1d\) is in train mode, where samples of a batch see each other; .* call model.eval\(\) first",
    ),
    "dropout": (
        lambda: geometric_complexity(nn.Sequential(nn.Linear(D, 3), nn.Dropout(0.5)).double(), points()),
        r"'1' \(Dropout\) is in train mode, where outputs are random; .* call model.eval\(\) first",
    ),
    "spectral norm": (
        lambda: geometric_complexity(nn.utils.parametrizations.spectral_norm(nn.Linear(D, 3)), points()),
        r"\(_SpectralNorm\) is in train mode, where each pass changes its buffers",
    ),
    "mixing": (lambda: geometric_complexity(Mixing(), points()), "mixes the samples of a batch"),
    "random": (
        lambda: geometric_complexity(Function(lambda x: x + torch.rand_like(x)), points()),
        "two passes over one input differ",
    ),
    "scalar": (
        lambda: geometric_complexity(Function(lambda x: x.sum()), points()),
        r"turned a batch of 3 into shape \(\); expected one row of outputs per input",
    ),
    "wrong rows": (
        lambda: geometric_complexity(Function(lambda x: x.T), points()),
        r"turned a batch of 3 into shape \(6, 3\); expected one row",
    ),
    "cut": (
        lambda: geometric_complexity(Function(lambda x: x.round().detach()), points()),
        "the outputs are cut off from the inputs",
    ),
    "cut, forward": (
        lambda: geometric_complexity(Function(lambda x: x.detach() * 2), points(), estimator="forward"),
        "the outputs are cut off from the inputs",
    ),
    "steep": (
        lambda: geometric_complexity(Root(), AT_ZERO),
        "the gradients are NaN or Inf at 2 of 9 points, first at index 4; expected finite ones",
    ),
    "steep, all variants": (lambda: complexities(Root(), AT_ZERO), "NaN or Inf at 2 of 9 points, first at index 4"),
    "steep, probes": (
        lambda: geometric_complexity(Root(), AT_ZERO, estimator="vjp"),
        "NaN or Inf at 2 of 9 points, first at index 4",
    ),
    "estimator": (
        lambda: geometric_complexity(network(), points(), estimator="exakt"),
        "estimator 'exakt' is not known; did you mean 'exact'",
    ),
    "of": (lambda: geometric_complexity(network(), points(), of="softmx"), "of 'softmx' is not known; did you mean"),
    "own function": (
        lambda: geometric_complexity(network(), points(), of=torch.sum),
        r"of=: the function turned a batch of 3 into shape \(\); expected one row of outputs per input",
    ),
    "one output": (
        lambda: geometric_complexity(network(1), points(), of="softmax"),
        "of='softmax' expects at least two outputs, the model has one; use of='logits'",
    ),
    "layer": (
        lambda: geometric_complexity(ResNet18(width=1 / 16), points(2, 3, 32, 32), layer="stage.0"),
        "layer 'stage.0' is not known; did you mean",
    ),
    "rel_error": (
        lambda: geometric_complexity(network(), points(), rel_error=0),
        "expected a relative error above zero, found rel_error=0",
    ),
    "probes": (
        lambda: geometric_complexity(network(), points(), vectors=0),
        "at least one vector per point, found vectors=0",
    ),
    "batch": (
        lambda: geometric_complexity(network(), points(), batch=0),
        "at least one point at a time, found batch=0",
    ),
    "too many outputs": (
        lambda: geometric_complexity(network(), points(), estimator="outputs", vectors=5),
        "expected at most 4 outputs to draw, the model has no more, found vectors=5",
    ),
    "shape": (lambda: geometric_complexity(network(), points(3, 5)), r"the model failed on inputs of shape \(5,\)"),
    "constant": (
        lambda: normalised_complexity(linear(torch.zeros(1, D)), points()),
        "the outputs are the same at all 9 points, so there is no variance to divide by",
    ),
    "labels": (
        lambda: margin_complexity(network(), points(), torch.arange(9)),
        "labels run from 0 to 8, but the model has 4 outputs; expected labels 0 to 3",
    ),
    "few labels": (
        lambda: per_class_complexity(network(), points(), torch.arange(4)),
        r"y has shape \(4,\), expected \(9,\)",
    ),
    "real labels": (
        lambda: per_class_complexity(network(), points(), torch.rand(9)),
        "y holds fractions",
    ),
    "few names": (
        lambda: per_class_complexity(network(), points(), torch.arange(9) % 3, classes=("a", "b")),
        "labels run to 2, but 2 classes were named",
    ),
    "quantile": (
        lambda: margin_complexity(network(), points(), torch.zeros(9, dtype=torch.long), quantile=50),
        "expected a quantile between 0 and 1, found 50",
    ),
    "no layers": (lambda: per_layer_complexity(nn.Identity(), points()), "Identity has no layers to look at"),
}


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str) -> None:
    call, text = CASES[name]
    with pytest.raises(NetgrainError, match=text) as raised:
        call()
    assert "\n" not in str(raised.value)
