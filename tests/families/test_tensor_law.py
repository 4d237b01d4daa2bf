"""The law of one entry: expectations under it, moments of cut laws, words."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import truncnorm
from torch import Tensor, nn

from netgrain.families.initialisation import Initialisation, TensorLaw


class Counted:
    """A make() that counts its calls: reading the program takes one, drawing takes dozens."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        self.make, self.calls = make, 0

    def __call__(self) -> nn.Module:
        self.calls += 1
        return self.make()


def linear() -> nn.Module:
    return nn.Linear(12, 10)


def edited(edit: Callable[[nn.Module], object], base: Callable[[], nn.Module] = linear) -> nn.Module:
    model = base()
    with torch.no_grad():
        edit(model)
    return model


def weight(edit: Callable[[Tensor], object], base: Callable[[], nn.Module] = linear) -> Counted:
    return Counted(lambda: edited(lambda m: edit(m.weight), base))


LAWS = {
    "uniform": TensorLaw(0.0, 1 / 3, "uniform"),
    "uniform aside": TensorLaw(2.0, 1 / 3, "uniform"),
    "uniform across": TensorLaw(0.3, 1 / 3, "uniform"),
    "normal": TensorLaw(0.0, 4.0, "normal"),
    "normal aside": TensorLaw(0.7, 1.0, "normal"),
    "constant": TensorLaw(-2.0, 0.0, "constant"),
    "truncated": Initialisation(weight(lambda w: nn.init.trunc_normal_(w, 0.2, 1, -1, 2))).of("weight"),
}


@pytest.mark.parametrize("name", LAWS)
def test_quadrature(name: str) -> None:
    law = LAWS[name]
    x, w = law.quadrature()
    assert x.dtype == w.dtype == torch.float64
    assert len(x) <= 50
    assert float(w.sum()) == pytest.approx(1, abs=1e-14)
    assert float(w @ x) == pytest.approx(law.mean, abs=1e-8)
    assert float(w @ (x - law.mean).square()) == pytest.approx(law.variance, rel=1e-7)
    grid, weights = law.quadrature(400)
    for f in (torch.relu, torch.abs, lambda z: (z > 0).double(), torch.tanh):
        assert float(w @ f(x)) == pytest.approx(float(weights @ f(grid)), abs=1e-7)


@pytest.mark.quick
def test_quadrature_of_relu_by_hand() -> None:
    x, w = LAWS["normal"].quadrature()
    assert float(w @ x.relu()) == pytest.approx(2 / math.sqrt(2 * math.pi), rel=1e-10)
    x, w = LAWS["uniform across"].quadrature()
    assert float(w @ x.relu()) == pytest.approx(1.3**2 / 4, rel=1e-12)


@pytest.mark.parametrize(
    ("mean", "sd", "low", "high"), [(0, 1, -2, 2), (0.5, 1, -2, 2), (0, 0.02, 0, 0.04), (0, 1, -1, 50)]
)
def test_truncated_moments(mean: float, sd: float, low: float, high: float) -> None:
    law = Initialisation(weight(lambda w: nn.init.trunc_normal_(w, mean, sd, low, high))).of("weight")
    expected = truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)
    assert law.kind == "truncated"
    assert law.mean == pytest.approx(expected.mean(), abs=1e-12)
    assert law.variance == pytest.approx(expected.var(), rel=1e-10)


def test_texts() -> None:
    assert TensorLaw(0.0, 1e-2, "drawn", error=0.02).text == "drawn: variance 0.01 ± 0.0002"
    assert LAWS["uniform aside"].text == "uniform in 1 to 3"
    assert LAWS["normal"].text == "normal, sd 2"
    assert LAWS["constant"].text == "constant -2"
    assert LAWS["truncated"].text == "normal, mean 0.2, sd 1, cut to -1 to 2"
