"""Each kind of activation gets the moments that fit it, judged by a sum over a fine grid."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.activations import EXACT, with_moments
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.piecewise_linear import PiecewiseLinear
from netgrain.families.activations import activation_of

K = torch.tensor([[1.2, -0.5], [-0.5, 0.8]], dtype=torch.float64)
KINDS: dict[Callable[[Tensor], Tensor], type[Activation]] = {
    torch.relu: PiecewiseLinear,
    F.hardtanh: PiecewiseLinear,
    F.gelu: EXACT["gelu"],
    torch.erf: EXACT["erf"],
    torch.sin: EXACT["sin"],
    torch.exp: EXACT["exp"],
    torch.tanh: Activation,
    F.elu: Activation,
}


def by_grid(function: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """E[φ(h)φ(h')] and E[φ'(h)φ'(h')] for h, h' with covariance K, as sums over midpoints of a grid."""
    z = torch.arange(-8, 8, 0.01, dtype=torch.float64) + 0.005
    weight = torch.exp(-z.square() / 2)
    weight /= weight.sum()
    L = torch.linalg.cholesky(K)
    h, other = L[0, 0] * z[:, None], L[1, 0] * z[:, None] + L[1, 1] * z[None, :]

    def slope(x: Tensor) -> Tensor:
        return (function(x + 1e-6) - function(x - 1e-6)) / 2e-6

    return tuple(float(weight @ (f(h) * f(other)) @ weight) for f in (function, slope))  # type: ignore[return-value]


@pytest.mark.quick
@pytest.mark.parametrize("function", KINDS, ids=lambda f: f.__name__)
def test_moments_of_each_kind(function: Callable[[Tensor], Tensor]) -> None:
    call = activation_of(function, (torch.zeros(2),), {})
    assert call is not None
    activation = with_moments(call)
    assert type(activation) is KINDS[function]
    values, slopes = activation.moments(K)
    outputs, derivatives = by_grid(function)
    assert float(values[0, 1]) == pytest.approx(outputs, abs=1e-4)
    assert float(slopes[0, 1]) == pytest.approx(derivatives, abs=3e-3)  # a step of the grid at a kink
