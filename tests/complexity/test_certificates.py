"""Error certificates from margins and slopes."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.complexity.certificates import gc_error_bound, poincare_constants
from netgrain.runtime.errors import NetgrainError
from netgrain.training.loop import Optimizer
from netgrain.training.settings import Settings


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU, seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out, bias=bias), act()]
    return nn.Sequential(*parts[:-1]).double().eval()


CENTRES = 4 * torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)


SPREADS = torch.tensor([0.6, 0.9, 0.7], dtype=torch.float64)  # the largest standard deviation of each class


def gaussian_classes(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three Gaussian classes in three dimensions, each narrower along two axes."""
    y = torch.arange(3).repeat_interleave(n)
    shape = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]], dtype=torch.float64)
    return CENTRES[y] + noise(3 * n, 3, seed=seed) * shape[y] * SPREADS[y, None], y


def classifier(seed: int = 0) -> nn.Module:
    """A small smooth network trained on the three classes."""
    X, y = gaussian_classes(100, seed=100 + seed)
    net = mlp(3, 16, 3, act=nn.Tanh, seed=seed)
    weights = list(net.parameters())
    # torch's own Adam would import its compiler, seconds for one test
    optimiser = Optimizer(Settings(optimizer="adam", lr=0.05, weight_decay=1e-2), weights)
    for step in range(60):
        gradients = torch.autograd.grad(F.cross_entropy(net(X), y), weights)
        optimiser.update(gradients, step, [None] * len(weights))
    return net.eval()


def test_certificate_holds_on_fresh_samples_and_says_something() -> None:
    net = classifier()
    found = gc_error_bound(net, *gaussian_classes(500, seed=1), poincare=dict(enumerate((SPREADS**2).tolist())))
    X, y = gaussian_classes(40_000, seed=2)
    with torch.no_grad():
        z = net(X)
    own = F.one_hot(y, 3).bool()
    margin = z[own] - z.masked_fill(own, -math.inf).amax(1)
    for c in found.classes:
        m = margin[y == c.label]
        assert c.slope <= 2 * c.gc
        assert float(m.var()) <= c.poincare * c.slope
        assert float((m <= 0).double().mean()) <= c.sharp <= c.bound <= c.pessimistic < 0.6
        assert abs(c.margin - float(m.mean())) < 4 * c.margin.stderr
    assert found.vacuous == ()
    assert found.bound < 0.4


def test_certificate_is_sharp_for_a_linear_margin() -> None:
    """f = (x, −x), class 0 ~ N(μ, s²): Var m = c_P E‖∇m‖² = 4s², so the bound is Cantelli's with the true variance."""
    net = nn.Linear(1, 2, bias=False).double()
    net.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    X = 3 + 2 * noise(2000, 1)
    found = gc_error_bound(net, X, torch.zeros(2000, dtype=torch.long), poincare=4.0).classes[0]
    assert math.isclose(found.gc, 2)
    assert math.isclose(found.slope, 4)
    assert math.isclose(found.bound, 16 / (16 + found.margin**2))
    assert abs(found.margin - 6) < 4 * found.margin.stderr
    assert math.isclose(found.sharp, found.bound)


def test_limits_cover_the_truth_in_most_samples() -> None:
    """The pessimistic bound is above the one of the whole population in 95 % of small samples."""
    net, constants = classifier(), dict(enumerate((SPREADS**2).tolist()))
    truth = gc_error_bound(net, *gaussian_classes(30_000, seed=3), poincare=constants).classes
    samples = [gc_error_bound(net, *gaussian_classes(50, seed=1000 + s), poincare=constants) for s in range(100)]
    pairs = [(c, t) for sample in samples for c, t in zip(sample.classes, truth, strict=True)]
    assert sum(c.pessimistic >= t.bound for c, t in pairs) > 300 * (0.95 - 4 * math.sqrt(0.95 * 0.05 / 300))
    assert sum(c.bound >= t.bound for c, t in pairs) < 200  # the estimate itself is no such limit


def test_vacuous_certificates_say_so() -> None:
    net = classifier()
    X, y = gaussian_classes(50, seed=1)
    found = gc_error_bound(net, X, (y + 1) % 3, poincare=1.0)
    assert found.vacuous == (0, 1, 2)
    assert found.bound == 1 == found.pessimistic
    assert found.error == 1
    assert "vacuous for 3 of 3" in repr(found)


def test_poincare_constants() -> None:
    X, y = gaussian_classes(20_000, seed=4)
    found, assumption = poincare_constants(X, y, "gaussian")
    for c, spread in enumerate(SPREADS.tolist()):
        assert abs(found[c] / spread**2 - 1) < 4 * math.sqrt(2 / 20_000)
    assert "Gaussian" in assumption
    assert "Gaussian" in repr(gc_error_bound(classifier(), X[::200], y[::200]))
    assert poincare_constants(X, y, 2.0)[0] == {0: 2.0, 1: 2.0, 2: 2.0}


def test_gaussian_poincare_is_an_equality_for_the_leading_direction() -> None:
    X = noise(100_000, 3) * torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    for w, equal in (([1.0, 0, 0], True), ([1.0, 1.0, 1.0], False)):
        f = X @ torch.tensor(w, dtype=torch.float64)
        bound = 4 * sum(v**2 for v in w)
        assert (abs(float(f.var()) / bound - 1) < 4 * math.sqrt(2 / 100_000)) == equal
        assert float(f.var()) < bound * 1.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"poincare": 0.0}, "above zero"),
        ({"poincare": {0: 1.0}}, "no constant for class 1"),
        ({"poincare": "log-concave"}, "found 'log-concave'"),
    ],
)
def test_bad_constants(options: dict[str, object], message: str) -> None:
    X, y = gaussian_classes(5, seed=0)
    with pytest.raises(NetgrainError, match=message):
        gc_error_bound(mlp(3, 3), X, y, **options)


def test_certificates_refuse_one_output_and_single_samples() -> None:
    X, y = gaussian_classes(1, seed=0)
    with pytest.raises(NetgrainError, match="two outputs"):
        gc_error_bound(mlp(3, 1), X, y * 0)
    with pytest.raises(NetgrainError, match="one sample"):
        gc_error_bound(mlp(3, 3), X, y)
    with pytest.raises(NetgrainError, match="labels run"):
        gc_error_bound(mlp(3, 2), X, y)
