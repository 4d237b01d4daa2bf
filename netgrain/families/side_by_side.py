"""Input gradients of several members of a family at once: their weights stacked, one pass for all of them.

On a GPU a small network leaves most of the machine idle, and members that run side by side fill it. Members never mix,
so one backward pass of the sum gives the gradients of all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from netgrain.families.calls import with_output
from netgrain.families.gradients import POINTS_AT_ONCE, cut_at, gradients
from netgrain.families.logits import logits_of
from netgrain.families.members import frozen, tensors_of
from netgrain.families.outputs import Output, select
from netgrain.runtime.errors import NetgrainError

CLOSE = 1e-3  # of the largest entry: rounding stays far below, another network far above


def rows_of_members(
    models: Sequence[nn.Module],
    points: Tensor,  # (members, points, *input_shape), where the models live and of their type
    output: Output = "all",
) -> Tensor:
    """∇ₓ of each chosen output at each point of each member, (members, points · outputs, d).

    Member by member this is `netgrain.families.gradients.gradients(model, points).flatten(1)` up to rounding. Ask
    `why_not_side_by_side` first whether a family allows it; the models are left as they are found.

    >>> nets = [torch.nn.Linear(2, 1) for _ in range(3)]
    >>> rows = rows_of_members(nets, torch.zeros(3, 1, 2))
    >>> rows.shape, torch.equal(rows[2], nets[2].weight.detach())
    (torch.Size([3, 1, 2]), True)
    """
    return gradients_of_members(models, points, output).flatten(2)


def gradients_of_members(
    models: Sequence[nn.Module], points: Tensor, output: Output = "all", *, at: str | None = None
) -> Tensor:
    """The same as (members, points · outputs, *shape), with respect to the input or to the output of layer `at`."""
    if (reason := _different(models)) is not None:
        raise NetgrainError(f"members cannot run side by side: {reason}; take their gradients one by one.")
    if points.dim() < 2 or len(points) != len(models):
        raise NetgrainError(
            f"expected points (members, points, …) for {len(models)} members, found shape {tuple(points.shape)}."
        )
    skeleton = models[0]
    parameters, buffers = stack_module_state(list(models))
    state = {name: t.detach() for name, t in {**parameters, **buffers}.items()}

    def outputs(state: dict[str, Tensor], x: Tensor, place: Tensor) -> Tensor:
        if at is None:
            raw = logits_of(functional_call(skeleton, state, (place,)), place)
        else:
            layer = skeleton.get_submodule(at)
            # a shift by zero of the layer's output: its gradient is the gradient there
            raw = with_output(layer, lambda: functional_call(skeleton, state, (x,)), lambda out: out + place)
        return select(logits_of(raw, x).reshape(len(x), -1), output)

    pieces = []
    for some in points.detach().split(POINTS_AT_ONCE, dim=1):
        with torch.enable_grad():
            start = some.clone() if at is None else _zeros_at(skeleton, at, some)
            place = start.requires_grad_(True)
            y = vmap(outputs)(state, some, place)  # (members, points, chosen)
            chosen = y.shape[2]
            rows = [
                torch.autograd.grad(y[:, :, j].sum(), place, retain_graph=j + 1 < chosen, allow_unused=True)[0]
                if y.requires_grad
                else None
                for j in range(chosen)
            ]
        filled = [torch.zeros_like(place) if g is None else g for g in rows]
        pieces.append(torch.stack(filled, 2).flatten(1, 2))
    return torch.cat(pieces, 1)


def why_not_side_by_side(
    models: Sequence[nn.Module], points: Tensor, output: Output = "all", *, at: str | None = None
) -> str | None:
    """None, or why these members cannot run side by side; two members and one point each are enough to ask.

    The answer is found by trying and by comparing with the members one by one, since members may differ in what is no
    tensor, such as a random number kept as an attribute.
    """
    if (reason := _different(models)) is not None:
        return reason
    alone = [_alone(model, x, output, at) for model, x in zip(models, points, strict=True)]
    try:
        with warnings.catch_warnings():
            # an operation that vmap knows only as a loop: a loop over whole members is faster
            warnings.filterwarnings("error", message="There is a performance drop")
            together = gradients_of_members(models, points, output, at=at)
    except Exception as e:  # the model works alone, so whatever goes wrong is the stacking
        return f"vmap does not take the model ({(str(e).strip() or 'no reason given').splitlines()[0]})"
    for i, (one, same) in enumerate(zip(alone, together, strict=True)):
        if one.shape != same.shape or float((one - same).abs().max()) > CLOSE * float(one.abs().max()):
            return f"member {i} differs from member 0 in more than its parameters and buffers"
    return None


def _different(models: Sequence[nn.Module]) -> str | None:
    """What keeps the weights of these models from being stacked."""
    if not models:
        return "there are no members"
    first = _layout(models[0])
    for i, model in enumerate(models):
        if type(model) is not type(models[0]):
            return f"member {i} is a {type(model).__name__}, member 0 a {type(models[0]).__name__}"
        if model.training != models[0].training:
            return f"member {i} and member 0 are not both in eval mode"
        layout = _layout(model)
        if layout != first:
            names = sorted(n for n in {**layout, **first} if layout.get(n) != first.get(n))
            return f"'{names[0]}' of member {i} has another shape, type or place than that of member 0"
    return None


def _layout(model: nn.Module) -> dict[str, tuple[Any, ...]]:
    return {name: (t.shape, t.dtype, t.device, t.requires_grad) for name, t in tensors_of(model).items()}


def _alone(model: nn.Module, x: Tensor, output: Output, at: str | None) -> Tensor:
    if at is None:
        return gradients(frozen(model), x, output)
    call, layer = frozen(model), model.get_submodule(at)
    return gradients(call, x, output, at=lambda points: cut_at(call, layer, points))


def _zeros_at(model: nn.Module, at: str, points: Tensor) -> Tensor:
    """One for each member, of the shape of the layer's output."""
    with torch.no_grad():
        _, place = cut_at(model, model.get_submodule(at), points[0])
    return points.new_zeros(len(points), *place.shape)
