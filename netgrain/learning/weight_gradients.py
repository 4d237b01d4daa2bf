"""Gradients of single samples by the weights of one layer, from its input a and the gradient b at its output.

One rule per torch function. With p over positions and a unfolded where windows slide over it:

    dense, on vectors        b aᵀ, held as its two factors      affine of a norm     Σ_p b_p â_p and Σ_p b_p
    dense on tokens, conv    Σ_p b_p a_pᵀ                       gain, shift, token   b a, b and b, summed over repeats
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.families.trace import CONVOLUTION, TRANSPOSED

Function = Callable[..., Any]
Rows = Callable[[Tensor], Tensor]  # b, (samples, …) → (samples, weights)


@dataclass(frozen=True, eq=False)
class LayerGradient:
    """One call of a layer: how the gradient at its output becomes gradients of single samples by each parameter."""

    parameters: Mapping[int, Rows]  # by the identity of the parameter
    dense: Tensor | None = None  # the input of a dense layer on vectors, (samples, features): g = b aᵀ


def layer_gradient(
    name: str,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Tensor,
    known: Callable[[Any], bool],
) -> LayerGradient | None:
    """The rule for one call, or None; known: whether a value is one of the network's parameters."""
    rule = _RULES.get(name)
    return None if rule is None else rule(function, args, kwargs, out, known)


def _named(names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(names, args, strict=False)) | kwargs


def _linear(
    _function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], _out: Tensor, known: Callable[[Any], bool]
) -> LayerGradient | None:
    given = _named(("input", "weight", "bias"), args, kwargs)
    a, weight, bias = given["input"].detach(), given["weight"], given.get("bias")
    if not known(weight) or a.dim() < 2:
        return None
    rows: dict[int, Rows] = {id(weight): lambda b: torch.einsum("npo,npi->noi", _tokens(b), _tokens(a)).flatten(1)}
    if known(bias):
        rows[id(bias)] = lambda b: _tokens(b).sum(1)
    return LayerGradient(rows, a if a.dim() == 2 else None)


def _tokens(t: Tensor) -> Tensor:
    """(samples, positions, features)."""
    return t.reshape(len(t), -1, t.shape[-1])


def _convolution(turned: bool) -> Callable[..., LayerGradient | None]:
    def rule(
        _function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], _out: Tensor, known: Callable[[Any], bool]
    ) -> LayerGradient | None:
        given = _named(("input", "weight", "bias", *(TRANSPOSED if turned else CONVOLUTION)), args, kwargs)
        a, weight, bias = given["input"].detach(), given["weight"], given.get("bias")
        if not known(weight) or a.dim() != weight.dim():
            return None
        slide = _Slide.of(given, weight)
        groups = given.get("groups", 1)

        def of_weight(b: Tensor) -> Tensor:
            # a transposed convolution slides over its outputs, and its weights begin with the inputs
            still, moving = (a, b) if turned else (b, a)
            windows = _grouped(slide.windows(moving, still.shape[2:]), groups)  # (n, g, c · taps, positions)
            centre = _grouped(still.flatten(2), groups)  # (n, g, o, positions)
            return (centre @ windows.mT).flatten(1)

        rows: dict[int, Rows] = {id(weight): of_weight}
        if known(bias):
            rows[id(bias)] = lambda b: b.flatten(2).sum(2)
        return LayerGradient(rows)

    return rule


def _grouped(t: Tensor, groups: int) -> Tensor:
    return t.reshape(len(t), groups, -1, t.shape[2])


@dataclass(frozen=True)
class _Slide:
    """How windows move over a map."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]  # zeros in front of each axis

    @classmethod
    def of(cls, given: dict[str, Any], weight: Tensor) -> _Slide:
        kernel = tuple(weight.shape[2:])

        def each(value: Any) -> tuple[int, ...]:
            values = (value,) if isinstance(value, int) else tuple(value)
            return values if len(values) == len(kernel) else values * len(kernel)

        stride, dilation = each(given.get("stride", 1)), each(given.get("dilation", 1))
        padding = given.get("padding", 0)
        if padding == "same":  # the odd zero comes after
            padding = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True))
        return cls(kernel, stride, dilation, each(0 if padding == "valid" else padding))

    def windows(self, t: Tensor, positions: Sequence[int]) -> Tensor:
        """(samples, channels · taps, positions) of a map (samples, channels, …)."""
        spans = zip(positions, self.stride, self.dilation, self.kernel, strict=True)
        needed = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in spans]
        pads = []
        for size, need, front in zip(reversed(t.shape[2:]), reversed(needed), reversed(self.before), strict=True):
            pads += [front, need - front - size]  # a negative number cuts off what no window reaches
        t = F.pad(t, pads).contiguous()
        along = t.stride()[2:]
        moves = [x * s for x, s in zip(along, self.stride, strict=True)]
        taps = [x * d for x, d in zip(along, self.dilation, strict=True)]
        view = t.as_strided((*t.shape[:2], *self.kernel, *positions), (*t.stride()[:2], *taps, *moves))
        return view.reshape(len(t), t.shape[1] * _product(self.kernel), _product(positions))


def _product(sizes: Sequence[int]) -> int:
    return int(torch.Size(sizes).numel())


def _norm(names: Sequence[str], channels: bool) -> Callable[..., LayerGradient | None]:
    """channels: one weight for each entry of the second axis; else for each entry of the last ones."""

    def rule(
        function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], _out: Tensor, known: Callable[[Any], bool]
    ) -> LayerGradient | None:
        given = _named(names, args, kwargs)
        weight, bias = given.get("weight"), given.get("bias")
        if given.get("training", False):
            return None
        plain = {**given, "input": given["input"].detach(), "weight": None}
        if "bias" in given:
            plain["bias"] = None

        def summed(t: Tensor, like: Tensor) -> Tensor:
            if channels:
                return t.flatten(2).sum(2) if t.dim() > 2 else t
            return t.reshape(len(t), -1, like.numel()).sum(1)

        rows: dict[int, Rows] = {}
        if isinstance(weight, Tensor) and known(weight):
            rows[id(weight)] = lambda b: summed(b * function(**plain), weight)
        if isinstance(bias, Tensor) and known(bias):
            rows[id(bias)] = lambda b: summed(b, bias)
        return LayerGradient(rows)

    return rule


def _elementwise(multiplies: bool) -> Callable[..., LayerGradient | None]:
    """x + p and x · p with a parameter p that is repeated over samples."""

    def rule(
        _function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor, known: Callable[[Any], bool]
    ) -> LayerGradient | None:
        if len(args) != 2 or kwargs or not all(isinstance(t, Tensor) for t in args):
            return None
        p, x = args if known(args[0]) else args[::-1]
        if known(x) or x.shape != out.shape:
            return None
        x = x.detach()
        return _repeated(p, out, (lambda b: b * x) if multiplies else (lambda b: b))

    return rule


def _expand(
    _function: Function, args: tuple[Any, ...], _kwargs: dict[str, Any], out: Tensor, known: Callable[[Any], bool]
) -> LayerGradient | None:
    return _repeated(args[0], out, lambda b: b) if known(args[0]) else None


def _repeated(p: Tensor, out: Tensor, each: Callable[[Tensor], Tensor]) -> LayerGradient | None:
    """The sum over all places where an entry of p stands, sample by sample."""
    shape = (1,) * (out.dim() - p.dim()) + tuple(p.shape)
    if not shape or shape[0] != 1:
        return None
    over = [k for k in range(1, out.dim()) if shape[k] == 1 and out.shape[k] > 1]

    def rows(b: Tensor) -> Tensor:
        t = each(b)
        return (t.sum(over, keepdim=True) if over else t).flatten(1)

    return LayerGradient({id(p): rows})


_BATCH = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_RULES: dict[str, Callable[..., LayerGradient | None]] = {
    "linear": _linear,
    **{f"conv{n}d": _convolution(False) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution(True) for n in (1, 2, 3)},
    "batch_norm": _norm(_BATCH, True),
    "layer_norm": _norm(("input", "normalized_shape", "weight", "bias", "eps"), False),
    "rms_norm": _norm(("input", "normalized_shape", "weight", "eps"), False),
    "group_norm": _norm(("input", "num_groups", "weight", "bias", "eps"), True),
    **dict.fromkeys(("add", "radd", "iadd"), _elementwise(False)),
    **dict.fromkeys(("mul", "rmul", "imul"), _elementwise(True)),
    "expand": _expand,
}
