"""Gradients of outputs by input, or at a place inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.calls import with_output
from netgrain.families.failures import ADVICE, check_connected, check_finite_gradient, check_finite_outputs
from netgrain.families.members import forward, refuse_inference_mode
from netgrain.families.outputs import Output, select
from netgrain.runtime.errors import NetgrainError

POINTS_AT_ONCE = 64  # fixed, so that a result never depends on how work was cut into pieces


def gradients(
    call: Callable[[Tensor], Any],
    X: Tensor,  # (points, *input_shape)
    output: Output = "all",
    at: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    at_once: int = POINTS_AT_ONCE,
) -> Tensor:
    """∇ₓ of each chosen output at each point, shape (points · outputs, *shape of what is differentiated).

    ``at`` replaces the input by another place of the network: it maps a batch x to (outputs, tensor there). ``at_once``
    points share a pass.
    """
    refuse_inference_mode()
    pieces = []
    for points in X.split(at_once):
        with torch.enable_grad():
            if at is None:
                place = points.detach().requires_grad_(True)
                y = select(forward(call, place), output)
            else:
                raw, place = at(points.detach())
                y = select(raw, output)
            check_finite_outputs(y, call, points)
            rows = [
                # outputs of different points do not mix, so one backward pass serves a whole batch of points
                torch.autograd.grad(y[:, j].sum(), place, retain_graph=j + 1 < y.shape[1], allow_unused=True)[0]
                if y.requires_grad
                else None
                for j in range(y.shape[1])
            ]
        if at is None and all(g is None for g in rows):
            check_connected(lambda x: select(forward(call, x), output), points)
        pieces.append(torch.stack([torch.zeros_like(place) if g is None else g for g in rows], 1).flatten(0, 1))
        check_finite_gradient(pieces[-1], call, points)
    return torch.cat(pieces)


def cut_at(call: Callable[[Tensor], Any], layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs at x, and the layer's output as a leaf, so that back-propagation ends there; for `at` of `gradients`."""
    leaves: list[Tensor] = []

    def leaf(out: Tensor) -> Tensor:
        leaves.append(out.detach().requires_grad_(True))
        return leaves[-1].clone()  # an activation in place may overwrite it

    y: Tensor = with_output(layer, lambda: forward(call, x), leaf)
    if len(leaves) != 1:
        raise NetgrainError(f"a layer is called {len(leaves)} times; expected once, to take gradients at its output.")
    return y, leaves[0]


def check_differentiable(call: Callable[[Tensor], Any], x: Tensor, output: Output, *, advice: str = ADVICE) -> Tensor:
    """The chosen outputs at x, if a gradient leads from them back to x or they are constants."""
    with torch.inference_mode(False), torch.enable_grad():
        place = x.clone().detach().requires_grad_(True)
        y = select(forward(call, place, advice=advice), output)
        if not y.requires_grad:
            check_connected(lambda x: select(forward(call, x), output), place)
    return y.detach()


def check_deterministic(call: Callable[[Tensor], Any], x: Tensor) -> None:
    """Refuse a model that gives two answers to one question, or whose samples see each other."""
    with torch.no_grad():
        first, alone = forward(call, x), torch.cat([forward(call, one) for one in x.split(1)])
        if first.shape == alone.shape and torch.allclose(first, alone, rtol=1e-4, atol=1e-6, equal_nan=True):
            return
        if not torch.allclose(first, forward(call, x), rtol=1e-4, atol=1e-6, equal_nan=True):
            raise NetgrainError(
                "the model is stochastic in eval mode: two passes over one input differ; "
                "switch dropout and other noise off."
            )
        size = float(first.nan_to_num(0.0, 0.0, 0.0).abs().max())  # outputs that are not finite are told elsewhere
        if first.shape != alone.shape or not torch.allclose(first, alone, rtol=1e-2, atol=1e-4 * size, equal_nan=True):
            raise NetgrainError(
                "the model mixes the samples of a batch: the output for one input depends on its neighbours; "
                "use eval mode, a normalisation that acts on each sample, or torch.where instead of an if on values."
            )
