"""Which torch calls are activations, however they are spelt, and which are not."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from netgrain.closed_form.activations import with_moments
from netgrain.families.activations import activation_of

X = torch.zeros(1)


def psd(positions: int, rank: int, seed: int = 0) -> Tensor:
    factor = torch.randn(positions, rank, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.T / rank


class Outermost(TorchFunctionMode):
    """Keeps the first call of torch made under it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable, tuple, dict]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.calls.append((func, args, kwargs))
        return func(*args, **(kwargs or {}))


def recorded(apply: Callable[[Tensor], Tensor]) -> tuple[Callable, tuple, dict]:
    x = torch.empty(4, device="meta")
    with Outermost() as mode:
        apply(x)
    return mode.calls[0]


MODULES = [
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.LeakyReLU(0.3),
    nn.LeakyReLU(0.3, inplace=True),
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.SiLU(),
    nn.SiLU(inplace=True),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.Softplus(beta=2.0, threshold=3.0),
    nn.ELU(0.7),
    nn.ELU(inplace=True),
    nn.Mish(),
    nn.Mish(inplace=True),
    nn.Hardtanh(-0.5, 2.0),
    nn.Hardtanh(inplace=True),
    nn.ReLU6(),
    nn.ReLU6(inplace=True),
    nn.Hardswish(),
    nn.Hardswish(inplace=True),
    nn.Hardsigmoid(),
    nn.Softsign(),
    nn.SELU(),
    nn.SELU(inplace=True),
    nn.CELU(0.6),
    nn.CELU(inplace=True),
    nn.LogSigmoid(),
    nn.Tanhshrink(),
    nn.Softshrink(0.2),
    nn.Hardshrink(0.2),
    nn.Threshold(0.1, 0.1),
    nn.Threshold(0.1, -1.0, inplace=True),
]


CALLS: list[Callable[[Tensor], Tensor]] = [
    torch.relu,
    torch.relu_,
    lambda x: x.relu(),
    lambda x: x.relu_(),
    lambda x: F.relu(x, True),
    lambda x: F.leaky_relu(x, 0.1, True),
    lambda x: F.leaky_relu_(x, 0.1),
    lambda x: F.hardtanh(x, -2.0, 2.0, True),
    lambda x: F.gelu(x, approximate="tanh"),
    lambda x: F.softplus(x, 2),
    lambda x: F.silu(x, inplace=True),
    lambda x: F.tanh(x),
    lambda x: x.tanh_(),
    lambda x: x.sigmoid(),
    torch.special.expit,
    torch.special.erf,
    torch.erf,
    lambda x: x.erf_(),
    lambda x: x.erfc(),
    torch.sin,
    lambda x: x.cos(),
    lambda x: x.exp_(),
    abs,
    torch.absolute,
    torch.square,
    lambda x: x**2,
    lambda x: x.pow(3),
    lambda x: torch.pow(input=x, exponent=2),
    lambda x: x.__ipow__(2),
    lambda x: x.clamp(min=0),
    lambda x: torch.clamp(x, -1, 1),
    lambda x: x.clamp_(max=0.5),
    lambda x: x.clip(0, 6),
    lambda x: x.clamp_min(0.2),
    torch.arctan,
    lambda x: x.asinh(),
    F.logsigmoid,
]


@pytest.mark.parametrize("apply", MODULES + CALLS, ids=lambda a: repr(a) if isinstance(a, nn.Module) else None)
def test_recorded_calls_are_recognised(apply: Callable[[Tensor], Tensor]) -> None:
    call = activation_of(*recorded(apply))
    assert call is not None
    activation = with_moments(call)
    z = 3 * torch.randn(200, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    before = z.clone()
    assert torch.allclose(activation(z), apply(z.clone()), rtol=1e-14, atol=1e-15)
    assert torch.equal(z, before)
    K = psd(3, 5)
    assert all(torch.isfinite(matrix).all() for matrix in activation.moments(K))


@pytest.mark.parametrize(
    "apply",
    [
        lambda x: F.softmax(x, 0),
        lambda x: x + 1,
        lambda x: x * 2,
        lambda x: 2**x,
        lambda x: torch.pow(2, x),
        lambda x: x**x,
        lambda x: x**0.5,
        lambda x: x**-1,
        lambda x: x.clamp(min=x),
        lambda x: x.clamp(2, 1),
        lambda x: x.sum(),
        lambda x: F.prelu(x, torch.ones(1, device="meta")),
        lambda x: F.dropout(x),
        lambda x: torch.exp(x, out=torch.empty(4, device="meta")),
        lambda x: x.sign(),
        lambda x: torch._C._nn.elu(x, 1.0, 2.0),
    ],
)
def test_anything_else_is_not(apply: Callable[[Tensor], Tensor]) -> None:
    function, args, kwargs = recorded(lambda x: apply(x))
    if function is torch.ones or function is torch.empty:
        with Outermost() as mode:
            apply(torch.empty(4, device="meta"))
        function, args, kwargs = mode.calls[-1]
    assert activation_of(function, args, kwargs) is None


class Unhashable:
    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.quick
def test_callables_that_are_not_torchs() -> None:
    assert activation_of(lambda x: x, (X,), {}) is None
    assert activation_of(Unhashable(), (X,), {}) is None
    assert activation_of(torch.relu, (), {}) is None
