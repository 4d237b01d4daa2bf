"""A centred last layer, averaged over: one random vector at its input stands for all of its outputs.

Let f = W h(x) + b with centred, uncorrelated weights of variance v that nothing else depends on. Summed over k outputs,

    E_W[JᵀJ] = k v J_hᵀJ_h = k v E_z[(J_hᵀz)(J_hᵀz)ᵀ],      z ~ N(0, I),

so that a point costs one backward pass whatever the number of outputs, with a vector of its own at every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, forward, model_dtype
from netgrain.families.outputs import Output


@dataclass(frozen=True)
class RandomHead:
    """Where the last layer is, and what its outputs amount to."""

    name: str
    factor: float  # outputs · variance of a weight

    def on(self, model: nn.Module, seed: int) -> Callable[[Tensor], Tensor]:
        """The model with one output z·h(x) in the place of its own; JᵀJ has the same mean over heads."""
        layer = model.get_submodule(self.name)
        generator = torch.Generator().manual_seed(seed)

        def call(x: Tensor) -> Tensor:
            h = _inputs(layer, lambda: forward(model, x))[0]
            z = torch.randn(h.shape, generator=generator).to(h)
            return (h * z).sum(1, keepdim=True) * math.sqrt(self.factor)

        return call


def find_random_head(
    make: Family, model: nn.Module, input_shape: tuple[int, ...], *, seed: int, output: Output
) -> RandomHead | str:
    """The last layer of `model` (member 0), or why it is not averaged over."""
    from netgrain.families.initialisation import CannotRead, Initialisation

    if output != "all":
        return "one output is asked for"
    x = torch.randn(2, *input_shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    linear = [(n, m) for n, m in model.named_modules() if type(m) is nn.Linear]
    ran: list[str] = []
    handles = [m.register_forward_pre_hook(lambda *_, n=n: ran.append(n)) for n, m in linear]
    try:
        with torch.no_grad():
            y = forward(model, x)
    finally:
        for handle in handles:
            handle.remove()
    if not ran or ran.count(ran[-1]) > 1:
        return "the model does not end in a Linear layer of its own"
    name = ran[-1]
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        h = _inputs(layer, lambda: forward(model, x))[0]
        whole = h.dim() == 2 and len(h) == len(x) and layer.out_features == y.shape[1]
        if not whole or not torch.equal(layer(h), y):
            return f"'{name}' is not the last step"
    if layer.out_features == 1:
        return "the model has one output"
    key = f"{name}.weight" if name else "weight"
    try:
        laws = Initialisation(make, seed=seed)
        law = laws.of(key)
    except CannotRead as e:
        return str(e)
    if key in laws.tied or key in laws.tied.values():
        return f"the weight of '{name}' is shared"
    if law.mean != 0 or law.variance == 0:
        return f"the weights of '{name}' are not centred and random"
    return RandomHead(name, layer.out_features * law.variance)


def _inputs(layer: nn.Module, run: Callable[[], Any]) -> list[Tensor]:
    """What the layer receives while something runs."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        run()
    finally:
        handle.remove()
    return seen
