"""Which torch calls are elementwise activations, and where each has kinks.

One table: a name, its parameters after the tensor with their defaults, and how the `ActivationCall` is made from them.
A name stands for every way torch spells it: function, Tensor method, operator, in place or not. The Gaussian moments of
each are in `closed_form.activations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.families.trace import Ref, Step


@dataclass(frozen=True, eq=False)
class ActivationCall:
    """An elementwise function φ with its parameters filled in."""

    name: str
    function: Callable[[Tensor], Tensor]
    homogeneous: bool = False  # φ(cx) = cφ(x) for c >= 0
    kinks: tuple[float, ...] = ()  # where φ' jumps
    bends: tuple[float, ...] = ()  # where a higher derivative jumps
    slopes: tuple[float, ...] | None = None  # between the kinks, of straight pieces

    def __repr__(self) -> str:
        return f"ActivationCall({self.name})"


ActivationRow = Callable[..., ActivationCall | None]
_NOTHING = torch.empty(0)  # stands for a recorded tensor


def recorded_activation(step: Step) -> ActivationCall | None:
    """The activation that a step of a trace applies, if it is one."""
    if not step.args or not isinstance(step.args[0], Ref):
        return None
    return activation_of(step.function, (_NOTHING, *step.args[1:]), step.kwargs)


def activation_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> ActivationCall | None:
    """The activation that `function(*args, **kwargs)` applies to args[0]; None if it is not a known one.

    >>> activation_of(F.leaky_relu, (torch.zeros(3), 0.2), {"inplace": True})
    ActivationCall(leaky_relu)
    >>> activation_of(torch.softmax, (torch.zeros(3), 0), {}) is None
    True
    """
    name = _NAMES.get(function) if isinstance(function, Hashable) else None
    if name is None:
        return None
    parameters, make = _TABLE[name]
    given = dict(kwargs or {})
    x, rest = (args[0], args[1:]) if args else (given.pop("input", None), ())
    # torch takes `inplace` last, by position or by name
    names = (*parameters, "inplace")
    if not isinstance(x, Tensor) or len(rest) > len(names) or not given.keys() <= set(names) - set(names[: len(rest)]):
        return None
    found = {**parameters, **dict(zip(names, rest, strict=False)), **given}
    if not isinstance(found.pop("inplace", False), bool) or not all(
        value is None or isinstance(value, Real | str) for value in found.values()
    ):
        return None
    return make(name, **found)


def _curve(
    function: Callable[..., Tensor], *, kinks: tuple[float, ...] = (), bends: tuple[float, ...] = ()
) -> ActivationRow:
    """A curved function with its parameters."""
    return lambda name, **given: ActivationCall(name, lambda z: function(z, **given), kinks=kinks, bends=bends)


def _pieces(
    name: str, function: Callable[[Tensor], Tensor], kinks: tuple[float, ...], *slopes: float
) -> ActivationCall:
    """Straight pieces; kinks without a change of slope are dropped."""
    real = [i for i in range(len(kinks)) if slopes[i] != slopes[i + 1]]
    kinks, slopes = tuple(float(kinks[i]) for i in real), (slopes[0], *(slopes[i + 1] for i in real))
    homogeneous = set(kinks) <= {0.0} and float(function(torch.zeros((), dtype=torch.float64))) == 0
    return ActivationCall(name, function, homogeneous, kinks, slopes=tuple(float(l) for l in slopes))


def _leaky_relu(name: str, negative_slope: float) -> ActivationCall:
    return _pieces(name, lambda z: F.leaky_relu(z, negative_slope), (0.0,), negative_slope, 1.0)


def _clamp(name: str, min: float | None = None, max: float | None = None) -> ActivationCall | None:
    low, high = -math.inf if min is None else min, math.inf if max is None else max
    if not low < high or (math.isinf(low) and math.isinf(high)):
        return None
    ends = [(t, slopes) for t, slopes in ((low, (0.0, 1.0)), (high, (1.0, 0.0))) if math.isfinite(t)]
    slopes = (ends[0][1][0], *(after for _, (_, after) in ends))
    return _pieces(name, lambda z: z.clamp(low, high), tuple(t for t, _ in ends), *slopes)


def _softshrink(name: str, lambd: float) -> ActivationCall:
    function = lambda z: F.softshrink(z, lambd)  # noqa: E731
    return _pieces(name, function, (-lambd, lambd), 1.0, 0.0, 1.0) if lambd else _pieces(name, function, (), 1.0)


def _hardshrink(name: str, lambd: float) -> ActivationCall:
    function = lambda z: F.hardshrink(z, lambd)  # noqa: E731
    return ActivationCall(name, function, kinks=(-lambd, lambd)) if lambd else _pieces(name, function, (), 1.0)


def _threshold(name: str, threshold: float, value: float) -> ActivationCall | None:
    if threshold == value:
        return _clamp(name, min=value)
    return ActivationCall(name, lambda z: F.threshold(z, threshold, value), kinks=(float(threshold),))


def _elu(name: str, alpha: float) -> ActivationCall:
    return ActivationCall(name, lambda z: F.elu(z, alpha), kinks=() if alpha == 1 else (0.0,), bends=(0.0,))


def _softplus(name: str, beta: float, threshold: float) -> ActivationCall:
    function = lambda z: F.softplus(z, beta, threshold)  # noqa: E731
    return ActivationCall(name, function, bends=(threshold / beta,))


def _gelu(name: str, approximate: str) -> ActivationCall:
    if approximate == "none":
        return ActivationCall(name, F.gelu)
    return ActivationCall(f"gelu_{approximate}", lambda z: F.gelu(z, approximate=approximate))


def _power(name: str, exponent: float) -> ActivationCall | None:
    """Whole powers only: others are not defined, or not finite, at negative numbers or zero."""
    if not float(exponent).is_integer() or not 1 <= exponent <= 8:
        return None
    if exponent == 1:
        return _pieces(name, torch.clone, (), 1.0)
    return ActivationCall(f"power {int(exponent)}", lambda z: z.pow(int(exponent)))


_TABLE: dict[str, tuple[dict[str, Any], ActivationRow]] = {
    "relu": ({}, lambda name: _pieces(name, torch.relu, (0.0,), 0.0, 1.0)),
    "leaky_relu": ({"negative_slope": 0.01}, _leaky_relu),
    "abs": ({}, lambda name: _pieces(name, torch.abs, (0.0,), -1.0, 1.0)),
    "relu6": ({}, lambda name: _clamp(name, 0.0, 6.0)),
    "hardtanh": ({"min_val": -1.0, "max_val": 1.0}, lambda name, min_val, max_val: _clamp(name, min_val, max_val)),
    "clamp": ({"min": None, "max": None}, _clamp),
    "clamp_min": ({"min": None}, _clamp),
    "clamp_max": ({"max": None}, _clamp),
    "hardsigmoid": ({}, lambda name: _pieces(name, F.hardsigmoid, (-3.0, 3.0), 0.0, 1 / 6, 0.0)),
    "softshrink": ({"lambd": 0.5}, _softshrink),
    "hardshrink": ({"lambd": 0.5}, _hardshrink),
    "threshold": ({"threshold": math.nan, "value": math.nan}, _threshold),
    "hardswish": ({}, _curve(F.hardswish, kinks=(-3.0, 3.0))),
    "elu": ({"alpha": 1.0}, _elu),
    "selu": ({}, _curve(F.selu, kinks=(0.0,))),
    "celu": ({"alpha": 1.0}, _curve(F.celu, bends=(0.0,))),
    "softsign": ({}, _curve(F.softsign, bends=(0.0,))),
    "gelu": ({"approximate": "none"}, _gelu),
    "silu": ({}, _curve(F.silu)),
    "mish": ({}, _curve(F.mish)),
    "softplus": ({"beta": 1.0, "threshold": 20.0}, _softplus),
    "logsigmoid": ({}, _curve(F.logsigmoid)),
    "sigmoid": ({}, _curve(torch.sigmoid)),
    "tanh": ({}, _curve(torch.tanh)),
    "tanhshrink": ({}, _curve(F.tanhshrink)),
    "atan": ({}, _curve(torch.atan)),
    "asinh": ({}, _curve(torch.asinh)),
    "erf": ({}, _curve(torch.erf)),
    "erfc": ({}, _curve(torch.erfc)),
    "sin": ({}, _curve(torch.sin)),
    "cos": ({}, _curve(torch.cos)),
    "exp": ({}, _curve(torch.exp)),
    "square": ({}, lambda name: _power(name, 2)),
    "pow": ({"exponent": math.nan}, _power),
}

_OTHER_SPELLINGS = {
    "abs": ("absolute", "__abs__"),
    "clamp": ("clip",),
    "threshold": ("_threshold",),
    "logsigmoid": ("log_sigmoid",),
    "sigmoid": ("expit", "special_expit"),
    "atan": ("arctan",),
    "asinh": ("arcsinh",),
    "erf": ("special_erf",),
    "erfc": ("special_erfc",),
    "pow": ("__pow__", "__ipow__"),
}


def _names() -> dict[Callable[..., Any], str]:
    """Every callable of torch that is in the table."""
    # what a TorchFunctionMode sees of F.gelu or torch.special.erf is the function of _C behind it
    behind = (getattr(torch._C, "_nn", None), getattr(torch._C, "_special", None))
    owners = (torch, F, torch.Tensor, torch.special, *behind)
    found = {}
    for name in _TABLE:
        for spelling in (name, *_OTHER_SPELLINGS.get(name, ())):
            for owner in owners:
                for attribute in (spelling, f"{spelling}_"):
                    if callable(function := getattr(owner, attribute, None)):
                        found[function] = name
    return found


_NAMES = _names()
