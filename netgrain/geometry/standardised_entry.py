"""A first layer that standardises its weights: timm's ScaledStdConv2d and its like.

Its weights are centred, and every row of them adds up to zero, so that they are correlated in a way that is known
(`standardised_forms`). Whether a layer is of this kind is read off the steps that made its weights.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from netgrain.closed_form.computed_weights import weight_law
from netgrain.families.ends import Entry, entering_step, other_way, structure_of, unfit_weight, used_elsewhere
from netgrain.families.initialisation import CannotRead, TensorLaw
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.families.trace import CONVOLUTION, Other, Step, Trace, Unsupported, Weight

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def standardised_entry(reading: Reading) -> Entry | None:
    """The layer through which x enters, if its weights are standardised and nothing else about it is unusual."""
    trace = reading.trace
    if not isinstance(trace, Trace):
        return None
    found = entering_step(trace)
    if isinstance(found, Reason):
        return None
    step, layout = found
    name, layer = step.module, reading.model.get_submodule(step.module)
    if not isinstance(layer, CONVOLUTIONS) or not _is_plain(step, layer):
        return None
    conditions = (
        unfit_weight(name, layer, reading.initialisation),
        used_elsewhere(trace, step),
        other_way(trace, step),
    )
    if any(reason is not None for reason in conditions):
        return None

    def law_of(weight: Weight) -> tuple[TensorLaw, tuple[int, ...]]:
        return reading.initialisation.of(weight.name), reading.initialisation.shape(weight.name)

    try:
        law = weight_law(step.args[1], law_of, step.where)
    except (Unsupported, CannotRead):
        return None
    if law.row < 2 or law.law.variance == 0:
        return None
    return Entry(name, *structure_of(layer, layout), law.law, law.row)


def _is_plain(step: Step, layer: Any) -> bool:
    """Whether the step is the convolution that the layer's sizes tell of, with weights that were computed."""
    if len(step.args) < 2 or not isinstance(step.args[1], Other) or layer.groups != 1 or layer.padding_mode != "zeros":
        return False
    if tuple(step.args[1].shape) != tuple(layer.weight.shape):
        return False
    given = {**dict(zip(CONVOLUTION, step.args[3:], strict=False)), **step.kwargs}
    dims = len(layer.kernel_size)
    for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", 1)):
        used, own = given.get(name, default), getattr(layer, name)
        if not isinstance(used, str) and name != "groups":
            used = (used,) * dims if isinstance(used, int) else tuple(used)
        if used != (own if isinstance(own, str | int) else tuple(own)):
            return False
    return True
