"""A centred last layer, averaged over: one random vector at its input stands for all of its outputs.

Let f = W h(x) + b with centred, uncorrelated weights of variance v that nothing else depends on. Summed over k outputs,

    E_W[JᵀJ] = k v J_hᵀJ_h = k v E_z[(J_hᵀz)(J_hᵀz)ᵀ],      z ~ N(0, I),

so that a point costs one backward pass whatever the number of outputs, with a vector of its own at every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.calls import input_of
from netgrain.families.ends import weight_name
from netgrain.families.initialisation import CannotRead
from netgrain.families.members import forward
from netgrain.families.outputs import Output
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason


@dataclass(frozen=True)
class RandomHead:
    """Where the last layer is, and what its outputs amount to."""

    name: str
    factor: float  # outputs · variance of a weight
    outputs: int

    def on(self, model: nn.Module, seed: int) -> Callable[[Tensor], Tensor]:
        """The model with one output z·h(x) in the place of its own; JᵀJ has the same mean over heads."""
        layer = model.get_submodule(self.name)
        generator = torch.Generator().manual_seed(seed)

        def call(x: Tensor) -> Tensor:
            h: Tensor = input_of(layer, lambda: forward(model, x))
            z = torch.randn(h.shape, generator=generator).to(h)
            found: Tensor = (h * z).sum(1, keepdim=True) * math.sqrt(self.factor)
            return found

        call.model = model  # type: ignore[attr-defined]  # where `failures` looks for the module to name
        return call


def random_head_of(reading: Reading, output: Output) -> RandomHead | Reason:
    """The last layer of a family, or why it is not averaged over."""
    if output != "all":
        return Reason("asked for", "", "one output is asked for")
    last = reading.last_layer()
    if isinstance(last, Reason):
        return last
    if isinstance(reading.model, torch.jit.ScriptModule):
        return Reason("scripted", last.name, "the module is scripted")
    if not last.ends or not _only_linear(reading, last.name):
        return Reason("not last", last.name, f"'{last.name}' is not the last step")
    if last.outputs == 1:
        return Reason("one output", last.name, "the model has one output")
    if isinstance(last.law, Reason):
        return last.law
    try:
        law = reading.initialisation.of(weight_name(last.name))
    except CannotRead as e:
        return Reason("law", last.name, str(e))
    return RandomHead(last.name, last.outputs * law.variance, last.outputs)


def _only_linear(reading: Reading, name: str) -> bool:
    """Whether the layer does nothing but multiply its input: an nn.Linear, or a kind of it with a single step."""
    if type(reading.model.get_submodule(name)) is nn.Linear:
        return True
    return not isinstance(reading.trace, Reason) and sum(s.module == name for s in reading.trace.steps) == 1
