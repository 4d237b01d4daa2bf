"""Both ends of a module that cannot be traced: the questions of `ends`, answered by trying on one member."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.families.calls import watching
from netgrain.families.ends import (
    LAYERS,
    NO_ENTRY,
    Entry,
    LastLayer,
    centred_law,
    no_last_layer,
    unfit_layer,
    unfit_weight,
    weight_name,
    with_law,
)
from netgrain.families.failures import NotFinite
from netgrain.families.gradients import cut_at, gradients
from netgrain.families.initialisation import Initialisation
from netgrain.families.members import double_copy, forward, model_dtype
from netgrain.families.outputs import Output, select
from netgrain.families.reasons import Reason

MOST_LABELS = 2**24  # whole numbers that float32 holds


def entry_by_trying(model: nn.Module, input_shape: tuple[int, ...], initialisation: Initialisation) -> Entry | Reason:
    """The layer through which x enters one member, checked in double precision where the member allows it."""
    model = double_copy(model, input_shape)
    found = _receiver(model, input_shape)
    if isinstance(found, Reason):
        return found
    name, layout = found
    layer = model.get_submodule(name)
    if (unfit := unfit_layer(name, layer, initialisation)) is not None:
        return unfit
    try:
        reason = _other_ways_in(model, layer, name, layout, input_shape) or _feels_weights(
            model, layer, name, input_shape
        )
    except NotFinite as e:  # it is also looked at away from the origin
        return Reason("not finite", name, str(e))
    return with_law(name, layer, layout, initialisation) if reason is None else reason


def _receiver(model: nn.Module, input_shape: tuple[int, ...]) -> tuple[str, Tensor] | Reason:
    """The one layer that receives x, possibly rearranged, and which coordinate of x is where."""
    size = math.prod(input_shape)
    if size >= MOST_LABELS:
        return Reason("too large", "", "the input has too many coordinates to label")
    labels = torch.arange(1, size + 1, dtype=model_dtype(model)).reshape(1, *input_shape)
    seen: list[tuple[str, Tensor]] = []
    calls: dict[str, int] = {}

    def look(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        calls[name] = calls.get(name, 0) + 1
        x = inputs[0] if inputs and isinstance(inputs[0], Tensor) and isinstance(module, LAYERS) else None
        if x is not None and x.numel() == size and torch.equal(x.flatten().sort().values, labels.flatten()):
            seen.append((name, x.detach().long() - 1))

    with torch.no_grad(), watching(model, entering=look):
        forward(model, labels)
    if not seen:
        return Reason("no entry", "", NO_ENTRY)
    if len(seen) > 1:
        return Reason("several entries", "", f"x enters through several layers ({', '.join(name for name, _ in seen)})")
    name, layout = seen[0]
    if calls[name] > 1:
        return Reason("used elsewhere", name, f"'{name}' is used {calls[name]} times")
    return name, layout[0]


def _two_mixtures(y: Tensor) -> Tensor:
    """Two random combinations of the outputs: enough for checks, whatever their number."""
    weights = torch.randn(y.shape[1], 2, generator=torch.Generator().manual_seed(0)).to(y)
    return y @ weights


MIXED: Output = _two_mixtures


def _other_ways_in(
    model: nn.Module, layer: nn.Module, name: str, layout: Tensor, input_shape: tuple[int, ...]
) -> Reason | None:
    """∇ₓf must equal what passes back through the layer, at the origin and at a generic point."""
    generic = torch.randn(1, *input_shape, generator=torch.Generator().manual_seed(0))
    for x in (torch.zeros(1, *input_shape), generic):
        x = x.to(model_dtype(model))
        direct = gradients(model, x, MIXED).flatten(1)
        g = gradients(model, x, MIXED, at=lambda points: cut_at(model, layer, points))
        entry = x.flatten()[layout].expand(len(g), *layout.shape).clone().requires_grad_(True)
        with torch.enable_grad():
            (back,) = torch.autograd.grad((layer(entry) * g).sum(), entry)
        through = torch.zeros_like(direct)
        if back.shape[0] != len(through) or back[0].numel() != layout.numel():
            return Reason("mixed samples", name, f"'{name}' does not see one input per sample")
        through[:, layout.flatten()] = back.flatten(1)
        scale = float(direct.norm())
        if scale == 0 and float(g.norm()) == 0:
            continue
        if float((direct - through).norm()) > 1e-3 * max(scale, float(through.norm())):
            return Reason("other way", name, f"x also reaches the output around '{name}'")
    return None


def _feels_weights(model: nn.Module, layer: nn.Module, name: str, input_shape: tuple[int, ...]) -> Reason | None:
    """Other weights in the first layer must change nothing at the origin beyond that layer."""
    zero = torch.zeros(1, *input_shape, dtype=model_dtype(model))
    kept = model.get_parameter(weight_name(name)).detach()

    def look(weight: Tensor) -> tuple[Tensor, Tensor]:
        call = partial(functional_call, model, {weight_name(name): weight})
        with torch.no_grad():
            y = select(forward(call, zero), MIXED)
        return y, gradients(call, zero, MIXED, at=lambda points: cut_at(call, layer, points))

    before, after = look(kept), look(3 * kept.flip(tuple(range(kept.dim()))) + kept.std())
    if all(torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(before, after, strict=True)):
        return None
    return Reason("used elsewhere", name, f"the rest of the network depends on the weights of '{name}'")


# --- the last layer -------------------------------------------------------------------------------------------------


def last_layer_by_trying(
    model: nn.Module, input_shape: tuple[int, ...], initialisation: Initialisation
) -> LastLayer | Reason:
    """The linear layer that runs last in one member, if the outputs are linear in its weights alone."""
    model = double_copy(model, input_shape)
    x = torch.randn(3, *input_shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    ran: list[tuple[str, nn.Linear, Tensor]] = []

    def look(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Linear) and inputs:
            ran.append((name, module, inputs[0]))

    with torch.no_grad(), watching(model, entering=look):
        y = forward(model, x)
    if not ran:
        return no_last_layer()
    name, layer, h = ran[-1]
    if (unfit := unfit_weight(name, layer, initialisation)) is not None:
        return unfit
    if [module for _, module, _ in ran].count(layer) > 1:
        return Reason("used elsewhere", name, f"the weight of '{name}' is used more than once")
    if (reason := _not_odd(model, name, x) or _offset_beside_bias(model, name, x)) is not None:
        return reason
    with torch.no_grad():
        ends = h.dim() == 2 and len(h) == len(x) and torch.equal(layer(h), y)
    return LastLayer(name, layer.out_features, ends, centred_law(name, initialisation))


def _not_odd(model: nn.Module, name: str, x: Tensor) -> Reason | None:
    """The output must change its sign with the layer's weight, up to what it is without it."""
    weight = dict(model.named_parameters())[weight_name(name)].detach()

    def outputs(factor: float) -> Tensor:
        return forward(lambda points: functional_call(model, {weight_name(name): factor * weight}, (points,)), x)

    with torch.no_grad():
        plain, flipped, without = outputs(1.0), outputs(-1.0), outputs(0.0)
    tolerance = 1e-4 * (float(plain.abs().max()) + float(without.abs().max()))
    if float((without - without[:1]).abs().max()) > tolerance:
        return Reason("other way", name, f"x also reaches the output around '{name}'")
    if float((plain + flipped - 2 * without).abs().max()) > tolerance:
        return Reason("not linear", name, f"the output is not linear in the weight of '{name}'")
    return None


def _offset_beside_bias(model: nn.Module, name: str, x: Tensor) -> Reason | None:
    """What remains without the weight must come from the layer's own bias: it moves nothing that ∇ₓf depends on."""
    prefix = f"{name}." if name else ""
    leaves = {n: p.detach().requires_grad_(True) for n, p in model.named_parameters()}
    leaves[f"{prefix}weight"] = torch.zeros_like(leaves[f"{prefix}weight"])
    with torch.enable_grad():
        y = forward(lambda points: functional_call(model, leaves, (points,)), x[:1]).sum()
    others = [n for n in leaves if n not in (f"{prefix}weight", f"{prefix}bias")]
    if not y.requires_grad or not others:
        return None
    found = torch.autograd.grad(y, [leaves[n] for n in others], allow_unused=True)
    if not any(g is not None and bool(g.any()) for g in found):
        return None
    return Reason("other way", name, f"other parameters reach the output around '{name}'")
