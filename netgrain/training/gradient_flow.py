"""Gradient flow of one network: the velocity of its weights on a data set, and what it does to the input gradient.

    θ̇ = −∇_θ L(θ),      a = ∇ₓf(x),      b = d/dt ∇ₓf(x) = ∇²_{x,θ}f(x) · θ̇

b is a directional derivative of a: forward mode over reverse mode gives both in one pass, and the mixed Hessian is
never formed. L is a loss of `netgrain.training.losses`, summed over samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

import torch
import torch.autograd.forward_ad as forward_mode
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from netgrain.families.gradients import POINTS_AT_ONCE
from netgrain.families.members import forward, model_dtype
from netgrain.families.outputs import Output, select
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.training.losses import Loss

SAMPLES_AT_ONCE = 256  # fixed, so that a result never depends on how work was cut into pieces
Rates = Callable[[nn.Module, dict[str, Tensor], Tensor, Output], tuple[Tensor, Tensor]]


# --- the velocity of the weights ----------------------------------------------------------------------------------


def weight_velocity(
    model: nn.Module,
    X: Tensor,  # (samples, *input_shape)
    y: Tensor | None,  # as checked_targets gives it
    loss: Loss,
    moving: Sequence[str],
    *,
    offset: Tensor | None = None,
    who: str = "the model",
) -> dict[str, Tensor]:
    """θ̇ = −∇_θ L over the whole data set, for the parameters named in `moving`; in the model's precision.

    offset: (1, k), the outputs without the last layer's weights ω. With it the result is the mean over ω and −ω of the
    flow, seen from ω: ∂L/∂f is replaced by its odd part ½[∂L(f) − ∂L(2·offset − f)], at no further cost. Under SSE this
    is f − offset, and labels are not used (Proposition A.1).
    """
    place, dtype = next(model.parameters()).device, model_dtype(model)
    leaves = {name: p.detach().requires_grad_(True) for name, p in model.named_parameters() if name in moving}
    total = {name: in_double(torch.zeros_like(p)) for name, p in leaves.items()}

    def call(x: Tensor) -> Tensor:
        return forward(partial(called_with, model, leaves), x)

    slices = [slice(start, start + SAMPLES_AT_ONCE) for start in range(0, len(X), SAMPLES_AT_ONCE)]
    slopes: Tensor | None = None
    if not loss.additive and len(slices) > 1:
        with torch.no_grad():
            outputs = torch.cat([call(X[s].to(place, dtype)) for s in slices])
        assert y is not None
        slopes = _slope(loss, outputs, y.to(place), offset, who)
    for s in slices:
        with torch.enable_grad():
            f = call(X[s].to(place, dtype))
        if slopes is not None:
            e = slopes[s]
        else:
            e = _slope(loss, f.detach(), None if y is None else y[s].to(place), offset, who)
        if not f.requires_grad:
            raise NetgrainError(f"the outputs of {who} do not depend on any trainable weight; θ̇ = 0.")
        found = torch.autograd.grad(f, list(leaves.values()), e, allow_unused=True)
        for kept, g in zip(total.values(), found, strict=True):
            if g is not None:
                kept -= g.to(kept.device)
    return {name: t.to(leaves[name]) for name, t in total.items()}


def _slope(loss: Loss, f: Tensor, y: Tensor | None, offset: Tensor | None, who: str) -> Tensor:
    """∂L/∂f, or its odd part about the offset."""
    if offset is not None and loss.name == "sse":
        if not bool(torch.isfinite(f).all()):
            raise NetgrainError(f"the loss of {who} is not finite: its outputs have NaN or Inf; scale the data.")
        return f - offset
    assert y is not None
    here = loss.derivative(f, y, who)
    return here if offset is None else (here - loss.derivative(2 * offset - f, y, who)) / 2


# --- what the flow does to the input gradient ---------------------------------------------------------------------


def forward_rates(
    model: nn.Module, weight_velocity: dict[str, Tensor], X: Tensor, output: Output
) -> tuple[Tensor, Tensor]:
    """a = ∇ₓf and b = d/dt ∇ₓf of each chosen output at each point, (points · outputs, d) each.

    Forward over reverse: the weights are dual numbers θ + ε θ̇, and so is everything computed from them.
    """
    prepare_forward_mode()
    parameters = dict(model.named_parameters())

    def rows_at(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        with forward_mode.dual_level():
            duals = {name: forward_mode.make_dual(parameters[name].detach(), t) for name, t in weight_velocity.items()}
            y = select(forward(partial(called_with, model, duals), x), output)
            for j in range(y.shape[1]):
                # outputs of different points do not mix, so one backward pass serves a whole batch of points
                g = _gradient(y[:, j].sum(), x, retain=j + 1 < y.shape[1])
                value, rate = forward_mode.unpack_dual(g)
                yield value.detach().clone(), torch.zeros_like(value) if rate is None else rate.detach().clone()

    return _in_slices(rows_at, X)


def backward_rates(
    model: nn.Module, weight_velocity: dict[str, Tensor], X: Tensor, output: Output
) -> tuple[Tensor, Tensor]:
    """The same by reverse mode alone, b = ∇ₓ(∇_θ f · θ̇): slower, for models that forward mode does not support."""
    parameters = dict(model.named_parameters())

    def rows_at(x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        leaves = {name: parameters[name].detach().requires_grad_(True) for name in weight_velocity}
        y = select(forward(partial(called_with, model, leaves), x), output)
        for j in range(y.shape[1]):
            total = y[:, j].sum()
            gradients = torch.autograd.grad(total, list(leaves.values()), create_graph=True, allow_unused=True)
            terms = [(g * t).sum() for g, t in zip(gradients, weight_velocity.values(), strict=True) if g is not None]
            along = sum(terms, torch.zeros((), dtype=y.dtype, device=y.device))
            yield _gradient(total, x, retain=True).detach(), _gradient(along, x, retain=True).detach()

    return _in_slices(rows_at, X)


def _in_slices(rows_at: Callable[[Tensor], Iterator[tuple[Tensor, Tensor]]], X: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of all points, (points · outputs, d) each; rows_at gives those of one output after the other."""
    pieces = []
    for points in X.split(POINTS_AT_ONCE):
        with torch.enable_grad(), twice_differentiable():
            each = zip(*rows_at(points.detach().requires_grad_(True)), strict=True)
            pieces.append([torch.stack(rows, 1).flatten(0, 1).flatten(1) for rows in each])
    a, b = (torch.cat(rows) for rows in zip(*pieces, strict=True))
    return a, b


def twice_differentiable() -> AbstractContextManager[None]:
    """Attention by plain matrix products: torch's fused kernels have first derivatives only."""
    return sdpa_kernel(SDPBackend.MATH)


@cache
def prepare_forward_mode() -> None:
    """The first dual number makes torch compile its rules, with a deprecation warning of its own."""
    with warnings.catch_warnings(), forward_mode.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_mode.make_dual(torch.zeros(1), torch.zeros(1))


def called_with(model: nn.Module, parameters: dict[str, Tensor], x: Tensor) -> Any:
    """The outputs of a model with other parameters in the place of its own."""
    return functional_call(model, parameters, (x,))


def _gradient(total: Tensor, x: Tensor, *, retain: bool) -> Tensor:
    found = torch.autograd.grad(total, x, retain_graph=retain, allow_unused=True)[0] if total.requires_grad else None
    return torch.zeros_like(x) if found is None else found


def rates_for(model: nn.Module, moving: Sequence[str], x: Tensor, output: Output) -> tuple[Rates, str]:
    """Forward mode where the model supports it and both modes agree on a random direction, and a word for which."""
    generator = torch.Generator().manual_seed(0)
    named = dict(model.named_parameters())
    random = {n: torch.randn(named[n].shape, generator=generator).to(named[n]) for n in moving}
    answers: list[Tensor | None] = []
    reason = ""
    for rates in (forward_rates, backward_rates):
        try:
            answers.append(rates(model, random, x, output)[1])
        except (RuntimeError, NetgrainError) as e:
            answers.append(None)
            reason = (str(e).strip() or type(e).__name__).splitlines()[0]
    ahead, back = answers
    if ahead is None and back is None:
        raise NetgrainError(
            f"∇ₓf of this model cannot be differentiated in its weights, by forward or by reverse mode ({reason})."
        )
    if ahead is None:
        return backward_rates, "reverse over reverse"
    if back is not None and float((ahead - back).norm()) > 1e-3 * float(back.norm()):
        return backward_rates, "reverse over reverse"
    return forward_rates, "forward over reverse"
