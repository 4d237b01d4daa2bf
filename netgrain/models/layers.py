"""The layers that every built-in model chooses by name: activations and normalisations."""

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.runtime.errors import NetgrainError, did_you_mean

Activation = str | Callable[..., Any]  # a name, a maker of modules, or a function from tensor to tensor


class Erf(nn.Module):
    """The error function, elementwise: erf(x) = 2/√π ∫₀ˣ exp(−t²) dt."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


class Elementwise(nn.Module):
    """A function on tensors, as a module: so that hooks and tracing see one module per place it is used."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "erf": Erf,
    "linear": nn.Identity,
    "identity": nn.Identity,
}

MAP_NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm2d, "layer": partial(nn.GroupNorm, 1)}
VECTOR_NORMS: dict[str, Callable[[int], nn.Module]] = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}


def activation(choice: Activation) -> nn.Module:
    """A fresh module φ, applied to every element on its own.

    `choice` is a name of `ACTIVATIONS`, an `nn.Module` class (or any callable without required arguments that
    returns a module), or a function from a tensor to a tensor of the same shape.

    >>> activation("gelu")
    GELU(approximate='none')
    >>> activation(torch.sin)(torch.zeros(2))
    tensor([0., 0.])
    """
    if isinstance(choice, str):
        return _named_activation(choice)
    if isinstance(choice, nn.Module):
        return copy.deepcopy(choice)  # one instance in many places would tie them together
    if not callable(choice):
        raise NetgrainError(
            f"An activation is a name, an nn.Module class or an elementwise function, found {choice!r}: "
            "pass 'relu', nn.ReLU or torch.relu, or 'linear' for none."
        )
    if isinstance(choice, type) or not _needs_arguments(choice):
        return _made_activation(choice)
    _check_elementwise(choice)
    return Elementwise(choice)


def _named_activation(name: str) -> nn.Module:
    known = ACTIVATIONS.get(name.casefold())
    if known is None:
        raise NetgrainError(
            f"There is no activation called {name!r}.{did_you_mean(name, ACTIVATIONS)} Known names: "
            f"{', '.join(ACTIVATIONS)}; an nn.Module class or an elementwise function is welcome too."
        )
    return known()


def _needs_arguments(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # torch's own compiled functions, such as torch.erf, have no signature
        return True
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(p.default is p.empty and p.kind not in optional for p in parameters)


def _made_activation(make: Callable[..., object]) -> nn.Module:
    try:
        module = make()
    except TypeError as error:
        raise NetgrainError(
            f"The activation {make!r} could not be made without arguments ({error}): "
            "pass functools.partial with its arguments filled in."
        ) from error
    if not isinstance(module, nn.Module):
        raise NetgrainError(
            f"The activation {make!r} was expected to return an nn.Module, found {type(module).__name__}: "
            "pass an nn.Module class, or a function of one tensor."
        )
    return module


def _check_elementwise(function: Callable[[Tensor], Tensor]) -> None:
    probe = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    try:
        value: object = function(probe.clone())
    except Exception as error:
        raise NetgrainError(
            f"The activation {function!r} could not be applied to a tensor of shape (2, 3) "
            f"({type(error).__name__}: {error}): pass a function of one tensor that works on every element."
        ) from error
    if not isinstance(value, Tensor) or value.shape != probe.shape:
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise NetgrainError(
            f"The activation {function!r} was expected to turn a tensor of shape (2, 3) into one of the same "
            f"shape, found {found}: pass a function that works on every element."
        )


def norm_name(owner: str, norm: str | None, known: tuple[str, ...] = ("batch", "layer")) -> str | None:
    """The normalisation asked for, with "none" read as None; refuses names that `owner` does not have."""
    name = norm.casefold() if isinstance(norm, str) else norm
    if name is None or name == "none":
        return None
    if name not in known:
        listed = " or ".join(["None", *(repr(word) for word in known)])
        raise NetgrainError(f"{owner} expects norm to be {listed}, found {norm!r}.{did_you_mean(str(norm), known)}")
    return name


def map_norm(norm: str | None, channels: int) -> list[nn.Module]:
    """What normalises maps of shape (batch, channels, height, width): no layer at all, or one.

    "batch" is per channel over batch and positions; "layer" is per sample over channels and positions.
    """
    return [] if norm is None else [MAP_NORMS[norm](channels)]


def vector_norm(norm: str | None, size: int) -> list[nn.Module]:
    """What normalises vectors, or tokens, whose last axis has length `size`: no layer at all, or one."""
    return [] if norm is None else [VECTOR_NORMS[norm](size)]
