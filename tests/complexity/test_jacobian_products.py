"""Products with Jacobians: reverse mode twice, its refusals, and its speed in a fresh process."""

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity import (
    geometric_complexity,
)
from netgrain.runtime.errors import NetgrainError
from netgrain.training.gradient_flow import prepare_forward_mode
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


def close(a: float, b: float, rel: float = 1e-9) -> None:
    assert float(a) == pytest.approx(float(b), rel=rel, abs=1e-13)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.GELU])
def test_three_other_paths_of_automatic_differentiation(activation: Callable[[], nn.Module]) -> None:
    prepare_forward_mode()  # torch warns of itself when its first dual number is made
    net, X = network(activation=activation), points()
    one = lambda x: net(x[None])[0]  # noqa: E731
    paths = [
        torch.func.vmap(torch.func.jacrev(one))(X),
        torch.func.vmap(torch.func.jacfwd(one))(X),
        torch.stack([torch.autograd.functional.jacobian(one, x) for x in X]),
    ]
    close(geometric_complexity(net, X), naive.complexity(net, X), 1e-12)
    for J in paths:
        for estimator in ("exact", "forward"):
            close(geometric_complexity(net, X, estimator=estimator), float(J.detach().square().sum()) / len(X), 1e-12)


def test_finite_differences() -> None:
    net, X = network(activation=nn.GELU), points()
    close(geometric_complexity(net, X), naive.complexity_by_differences(net, X), 1e-7)
    # along random signs, as the probes do
    generator = torch.Generator().manual_seed(0)
    u = torch.randint(0, 2, (4000, len(X), D), generator=generator).double() * 2 - 1
    with torch.no_grad():
        slopes = ((net(X + 1e-5 * u) - net(X - 1e-5 * u)) / 2e-5).square().sum((1, 2)) / len(X)
    assert abs(float(slopes.mean()) - geometric_complexity(net, X)) < 4 * float(slopes.std()) / math.sqrt(4000)


class Once(torch.autograd.Function):
    """2x, whose backward pass says that it cannot be differentiated."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: object, g: Tensor) -> Tensor:
        return 2 * g


class Secretly(Once):
    """The same, whose backward pass does not say so: its own derivative is lost in a branch."""

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return g + g.detach()


@pytest.mark.parametrize("kind", [Once, Secretly])
def test_what_cannot_be_differentiated_twice_is_measured_by_outputs(kind: type[Once]) -> None:
    odd = Function(lambda x: kind.apply(x).repeat(1, 4))
    found = geometric_complexity(odd, points())
    assert found.estimator == "exact"
    close(found, 4 * 4 * D)
    with pytest.raises(NetgrainError, match=r"cannot be differentiated twice.*use estimator='vjp' or 'exact'"):
        geometric_complexity(odd, points(), estimator="jvp")


FIRST_CALL = """
import time, torch
from netgrain.complexity.estimators import geometric_complexity
net, X = torch.nn.Linear(10, 20), torch.ones(5, 10)
started = time.process_time()
print(geometric_complexity(net, X).estimator, geometric_complexity(net, X, estimator="jvp").estimator)
assert time.process_time() - started < 1.5
"""


def test_first_call_with_fewer_inputs_than_outputs_is_fast() -> None:
    # forward mode would import torch's compiler, 4 to 5 s of processor time in a fresh process
    found = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["forward", "jvp"], found.stderr
