"""The function that is measured: what is differentiated, and a model that is left as found."""

import copy
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity import (
    complexities,
    geometric_complexity,
)
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


def close(a: float, b: float, rel: float = 1e-9) -> None:
    assert float(a) == pytest.approx(float(b), rel=rel, abs=1e-13)


def test_own_function_of_the_outputs() -> None:
    net, X = network(), points()
    rows = sum(float(naive.jacobian(net, x)[0].square().sum()) for x in X) / len(X)
    found = geometric_complexity(net, X, of=first)
    close(found, rows)
    assert found.of == "first"
    close(geometric_complexity(net, X, of=lambda y: 2 * first(y)), 4 * rows)


def first(y: Tensor) -> Tensor:
    return y[:, 0]


def test_a_convolutional_network_is_left_as_found() -> None:
    torch.manual_seed(0)
    net = ResNet18(channels=1, image_size=8, outputs=10, width=1 / 16, norm="batch")
    X = torch.randn(6, 1, 8, 8)
    net(X).sum().backward()  # gradients, and statistics of the batch norms
    net.eval()
    some = next(net.parameters())
    some.requires_grad_(False)
    before = copy.deepcopy(net.state_dict())
    grads = {name: None if p.grad is None else p.grad.clone() for name, p in net.named_parameters()}
    flags = {name: p.requires_grad for name, p in net.named_parameters()}
    modes = [m.training for m in net.modules()]
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    for estimator in ESTIMATORS:
        geometric_complexity(net, X, estimator=estimator, vectors=None if estimator in ESTIMATORS[:2] else 2)
    complexities(net, X, torch.arange(6))
    geometric_complexity(net, X, layer="blocks.0")
    with torch.no_grad():
        found = geometric_complexity(net, X)
    close(found, naive.complexity(net, X), 1e-4)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])
    for name, p in net.named_parameters():
        assert p.requires_grad == flags[name]
        assert (p.grad is None) == (grads[name] is None)
        assert p.grad is None or torch.equal(p.grad, grads[name])
    assert modes == [m.training for m in net.modules()]
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]
    assert random.getstate() == states[2]
    assert not any(m._forward_hooks for m in net.modules())
    assert X.grad is None
    assert not X.requires_grad


def test_inference_mode_and_inputs_with_gradients() -> None:
    net = network()
    expected = geometric_complexity(net, points())
    with torch.inference_mode():
        close(geometric_complexity(net, points()), expected)
    X = points().requires_grad_(True)
    close(geometric_complexity(net, X), expected)
    assert X.grad is None


class Wrapped(nn.Module):
    def __init__(self, wrap: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.inner, self.wrap = network(), wrap

    def forward(self, x: Tensor) -> object:
        return self.wrap(self.inner(x))


class Answer:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


def test_logits_are_taken_out_of_an_answer() -> None:
    expected = geometric_complexity(network(), points())
    for wrap in (Answer, lambda y: {"loss": None, "logits": y}):
        close(geometric_complexity(Wrapped(wrap), points()), expected)


def test_a_refused_model_has_not_moved_the_generators() -> None:
    state = torch.get_rng_state()
    with pytest.raises(NetgrainError, match="two passes over one input differ"):
        geometric_complexity(Function(lambda x: x + torch.rand_like(x)), points())
    assert torch.equal(torch.get_rng_state(), state)
