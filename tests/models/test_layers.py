"""Activations and normalisations by name, as callables, and what is said of others."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from netgrain.models import layers
from tests.models.networks import images, leaves, small


@pytest.mark.parametrize("name", layers.ACTIVATIONS)
def test_named_activation_is_a_fresh_elementwise_module(name: str) -> None:
    phi = layers.activation(name)
    x = torch.linspace(-2, 2, 10).reshape(2, 5)
    assert phi is not layers.activation(name)
    assert torch.allclose(phi(x), torch.stack([phi(value) for value in x.flatten()]).reshape(2, 5))
    assert small("mlp", activation=name.upper())(images()).isfinite().all()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", F.relu), ("leaky_relu", F.leaky_relu), ("gelu", F.gelu), ("silu", F.silu), ("elu", F.elu),
        ("softplus", F.softplus), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("erf", torch.erf),
        ("linear", lambda x: x), ("identity", lambda x: x),
    ],
)  # fmt: skip
def test_named_activation_is_what_it_says(name: str, function: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-3, 3, 31)
    assert torch.equal(layers.activation(name)(x), function(x))


def slope(negative_slope: float = 0.5) -> nn.Module:
    return nn.LeakyReLU(negative_slope)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (nn.Tanh, torch.tanh),
        (partial(nn.LeakyReLU, 0.2), partial(F.leaky_relu, negative_slope=0.2)),
        (slope, partial(F.leaky_relu, negative_slope=0.5)),
        (nn.LeakyReLU(0.3), partial(F.leaky_relu, negative_slope=0.3)),
        (torch.sin, torch.sin),
        (partial(F.leaky_relu, negative_slope=0.1), partial(F.leaky_relu, negative_slope=0.1)),
        (lambda x: x * x, torch.square),
    ],
    ids=["class", "partial class", "factory", "instance", "torch function", "partial function", "lambda"],
)
def test_activation_may_be_a_callable(choice: object, expected: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-2, 2, 9)
    assert torch.equal(layers.activation(choice)(x), expected(x))
    model = small("lenet", activation=choice)
    parts = [part for _, part in leaves(model)]
    assert len(parts) == len({id(part) for part in parts})
    assert torch.equal(fx.symbolic_trace(model)(images()), model(images()))


def test_function_shows_its_name() -> None:
    assert repr(layers.activation(torch.sin)) == "Elementwise(sin)"
