"""Both ends of a network, read off its trace: the one layer through which x enters, and the last linear layer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.convolution import ConvStem
from netgrain.families.initialisation import CannotRead, Initialisation, TensorLaw
from netgrain.families.nested import replaced
from netgrain.families.reasons import Reason
from netgrain.families.trace import Ref, Step, Trace, others_in, refs_in, weights_in

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NO_ENTRY = "x does not enter through a Linear or Conv layer as it is"
ENTERING = {"linear", "conv1d", "conv2d", "conv3d"}
# steps that take nothing from a tensor but its shape and type
BLANK = {f"{what}_like" for what in ("zeros", "ones", "empty", "full", "rand", "randn")}
BLANK |= {f"new_{what}" for what in ("zeros", "ones", "empty", "full", "tensor")}
# steps after which all numbers are still there, in the same order
SAME_ORDER = {"flatten", "unflatten", "reshape", "view", "contiguous", "clone", "squeeze", "unsqueeze", "dropout", "to"}
# steps that are linear in one tensor, whatever else they are given
LINEAR = SAME_ORDER | {"permute", "transpose", "T", "mT", "movedim", "mean", "sum", "getitem", "select", "neg"}
LINEAR |= {"mul", "rmul", "multiply", "div", "truediv", "divide", "float", "double"}
LINEAR |= {f"{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)}
SUMS = {"add", "radd", "sub", "rsub", "cat", "stack"}  # of several tensors, or with numbers


@dataclass(frozen=True, eq=False)
class Entry:
    """The one layer through which x enters, as it is or rearranged.

    Parameters
    ----------
    name : str
        Dotted name of the layer: a Linear or a convolution without groups, used once.
    stem : ConvStem or None
        Where windows overlap; None where positions do not (a linear layer, a patch embedding).
    positions : int
        Number of positions at the layer's output.
    copies : int
        Number of coordinates that each position sees, if windows do not overlap; else of channels.
    order : Tensor of shape (copies · positions of the input,)
        Coordinates of x, copy after copy.
    law : TensorLaw
        Of its weights: centred, uncorrelated, independent of everything else.
    row : int, default 0
        Of standardised weights, the number N that add up to zero: their covariance is
        law.variance · (I − 11ᵀ/N). 0 where they are uncorrelated.
    """

    name: str
    stem: ConvStem | None
    positions: int
    copies: int
    order: Tensor
    law: TensorLaw
    row: int = 0


@dataclass(frozen=True, eq=False)
class LastLayer:
    """The last linear layer; the outputs are linear in its weights, and x reaches them through it alone.

    Parameters
    ----------
    name : str
        Dotted name of the layer.
    outputs : int
        Number of its outputs.
    ends : bool
        Whether its outputs are the network's, one row for each sample.
    law : TensorLaw or Reason
        Of its weights: centred and uncorrelated, or why not.
    """

    name: str
    outputs: int
    ends: bool
    law: TensorLaw | Reason

    @property
    def symmetric(self) -> bool:
        """Whether weights ω and −ω are equally likely."""
        return isinstance(self.law, TensorLaw) and self.law.symmetric


def weight_name(layer: str) -> str:
    return f"{layer}.weight" if layer else "weight"


# --- the entry ------------------------------------------------------------------------------------------------------


def entry_of(trace: Trace, model: nn.Module, initialisation: Initialisation) -> Entry | Reason:
    """Where x enters, if gradients at the layer's output say all about G at the origin."""
    found = entering_step(trace)
    if isinstance(found, Reason):
        return found
    step, layout = found
    name, layer = step.module, model.get_submodule(step.module)
    for reason in (unfit_layer(name, layer, initialisation), used_elsewhere(trace, step), other_way(trace, step)):
        if reason is not None:
            return reason
    return with_law(name, layer, layout, initialisation)


def with_law(name: str, layer: nn.Module, layout: Tensor, initialisation: Initialisation) -> Entry | Reason:
    law = centred_law(name, initialisation)
    return law if isinstance(law, Reason) else Entry(name, *structure_of(layer, layout), law)


def entering_step(trace: Trace) -> tuple[Step, Tensor] | Reason:
    """The one weighted step that x enters, and which coordinate of x is where in its input."""
    values = _without_weights(trace)
    needed = trace.needed()
    found: list[tuple[Step, Tensor]] = []
    first = None  # the first step that does more than rearrange
    for step in (s for s in trace.steps if s.index in needed):
        refs = list(refs_in((step.args, step.kwargs)))
        if not refs or not all(r in values for r in refs):
            continue
        entering = step.name in ENTERING and bool(step.args) and isinstance(step.args[0], Ref)
        layout = _layout(values[step.args[0]], trace.input_shape) if entering else None
        if layout is not None:
            found.append((step, layout))
        elif first is None and not any(_layout(v, trace.input_shape) is not None for v in _outputs(step, values)):
            first = step
    if not found:
        why = f" ({first.where} comes first)" if first is not None else ""
        return Reason("no entry", "", f"{NO_ENTRY}{why}")
    names = list(dict.fromkeys(step.module for step, _ in found))
    if len(names) > 1:
        return Reason("several entries", "", f"x enters through several layers ({', '.join(names)})")
    step, layout = found[0]
    if len(layout) != 2:
        return Reason("mixed samples", step.module, f"'{step.module}' does not see one input per sample")
    return step, layout[0]


def _outputs(step: Step, values: dict[Ref, Tensor]) -> list[Tensor]:
    return [values[ref] for i in range(len(step.shapes)) if (ref := Ref(step.index, i)) in values]


def _without_weights(trace: Trace) -> dict[Ref, Tensor]:
    """Values that come from x alone, replayed: the first sample has labels 1 … d, the second one random numbers."""
    size = math.prod(trace.input_shape)
    noise = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(1, size + 1, dtype=torch.float64)
    values = {Ref(-1): torch.stack([labels, noise]).reshape(2, *trace.input_shape)}
    for step in trace.steps:
        arguments = (step.args, step.kwargs)
        if any(True for _ in (*weights_in(arguments), *others_in(arguments))):
            continue
        if not all(ref in values for ref in refs_in(arguments)):
            continue
        with suppress(Exception), torch.no_grad():  # whatever a function dislikes about these numbers
            args, kwargs = replaced(arguments, Ref, lambda ref: values[ref].clone())
            made = step.function(*args, **kwargs)
            for item, t in enumerate(made if isinstance(made, tuple | list) else (made,)):
                if isinstance(t, Tensor) and t.is_floating_point():
                    values[Ref(step.index, item)] = t.double()
    return values


def _layout(value: Tensor, input_shape: tuple[int, ...]) -> Tensor | None:
    """Which coordinate of x is where, (2, …) of whole numbers, if the value is x rearranged; None if it is not."""
    size = math.prod(input_shape)
    if value.numel() != 2 * size:
        return None
    if len(value) != 2:  # samples and positions share an axis; still x, if nothing was lost
        return value.long() if _is_shuffled(value.flatten()[:size], size) else None
    if not _is_shuffled(value[0].flatten(), size):
        return None
    places = value[0].flatten().long() - 1
    noise = torch.randn(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(value)
    same = torch.allclose(value[1].flatten(), noise[places], rtol=1e-6, atol=1e-6)
    return (value.long() - 1) if same else None


def _is_shuffled(labels: Tensor, size: int) -> bool:
    return torch.equal(labels.sort().values, torch.arange(1, size + 1, dtype=labels.dtype))


def unfit_layer(name: str, layer: nn.Module, initialisation: Initialisation) -> Reason | None:
    """Why a layer cannot be the entry, from what it is."""

    if not isinstance(layer, LAYERS):
        return Reason("no entry", name, NO_ENTRY)
    if (unfit := unfit_weight(name, layer, initialisation)) is not None:
        return unfit
    if type(layer) not in LAYERS:
        kind = type(layer).__name__
        return Reason("own layer", name, f"'{name}' is a {kind}, whose forward may differ from its base class")
    if getattr(layer, "groups", 1) != 1:
        return Reason("grouped convolution", name, f"'{name}' is a grouped convolution")
    if (mode := getattr(layer, "padding_mode", "zeros")) != "zeros":
        return Reason("padding", name, f"'{name}' pads with '{mode}', not with zeros")
    return None


def unfit_weight(name: str, layer: nn.Module, initialisation: Initialisation) -> Reason | None:
    """Why the weight of a layer is not one that can be averaged over by itself."""
    if not isinstance(layer._parameters.get("weight"), nn.Parameter):
        return Reason("computed weight", name, f"the weight of '{name}' is computed from other parameters")
    key = weight_name(name)
    first = initialisation.tied.get(key, key)
    owners = [first, *(other for other, original in initialisation.tied.items() if original == first)]
    if len(owners) == 1:
        return None
    return Reason("shared weight", name, f"the weight of '{name}' is shared ({', '.join(owners)})")


def used_elsewhere(trace: Trace, step: Step) -> Reason | None:
    """Why the weight of this step is not its own."""
    key, name = weight_name(step.module), step.module
    steps = [s for s in trace.steps if key in _weights_of(s)]
    if key in trace.looked_at or any(s.module != name for s in steps):
        return Reason("used elsewhere", name, f"the rest of the network depends on the weights of '{name}'")
    if len(steps) != 1:
        return Reason("used elsewhere", name, f"'{name}' is used {len(steps)} times")
    if any(s.module == name and s is not step for s in trace.steps):
        return Reason("own layer", name, f"'{name}' does more than its class (a hook, perhaps)")
    return None


def _weights_of(step: Step) -> set[str]:
    arguments = (step.args, step.kwargs)
    return {w.name for w in weights_in(arguments)}.union(*(o.weights for o in others_in(arguments)))


def other_way(trace: Trace, step: Step) -> Reason | None:
    """Whether x reaches the output without this step."""
    reached = {Ref(-1)}
    for s in trace.steps:
        if s is not step and s.name not in BLANK and any(r in reached for r in refs_in((s.args, s.kwargs))):
            reached |= {Ref(s.index, i) for i in range(len(s.shapes))}
    if trace.output not in reached:
        return None
    return Reason("other way", step.module, f"x also reaches the output around '{step.module}'")


def structure_of(layer: nn.Module, layout: Tensor) -> tuple[ConvStem | None, int, int, Tensor]:
    """Overlapping windows or not, positions, copies, and the coordinates of x copy after copy."""
    if isinstance(layer, nn.Linear):
        features = layout.shape[-1]
        by_feature = layout.reshape(-1, features).T
        return None, by_feature.shape[1], features, by_feature.flatten()
    assert isinstance(layer, nn.modules.conv._ConvNd)
    spatial = tuple(layout.shape[1:])
    pads = layer._reversed_padding_repeated_twice  # last dimension first, before and after
    dims = len(spatial)
    stem = ConvStem(
        spatial=spatial,
        kernel=tuple(layer.kernel_size),
        stride=tuple(layer.stride),
        padding=tuple((pads[2 * (dims - 1 - i)], pads[2 * (dims - 1 - i) + 1]) for i in range(dims)),
        dilation=tuple(layer.dilation),
    )
    if not stem.is_patching:
        return stem, stem.out_size, layout.shape[0], layout.flatten()
    # (C, n1·k1, n2·k2, …) → (C, k1, k2, …, n1, n2, …): a copy is one place inside the patch
    split = layout.reshape(layout.shape[0], *(v for n, k in zip(stem.out, stem.kernel, strict=True) for v in (n, k)))
    within, across = range(2, 2 * dims + 1, 2), range(1, 2 * dims, 2)
    order = split.permute(0, *within, *across).flatten()
    return None, stem.out_size, layout.shape[0] * math.prod(stem.kernel), order


def centred_law(name: str, initialisation: Initialisation) -> TensorLaw | Reason:
    """The law of a layer's weights, if they are random with mean zero and uncorrelated."""
    try:
        law = initialisation.of(weight_name(name), independent=False)
    except CannotRead as e:
        return Reason("law", name, str(e))
    if law.variance == 0:
        return Reason("law", name, f"'{name}': its weights are not random ({law.text})")
    if law.mean != 0:
        return Reason("law", name, f"'{name}': its weights do not have mean zero ({law.text})")
    return law


# --- the last layer -------------------------------------------------------------------------------------------------


def last_layer_of(trace: Trace, model: nn.Module, initialisation: Initialisation) -> LastLayer | Reason:
    """The last linear layer, if the outputs are linear in its weights and depend on x through it alone."""
    needed = trace.needed()
    linear = [s for s in trace.steps if s.index in needed and s.name == "linear"]
    step = linear[-1] if linear else None
    layer = model.get_submodule(step.module) if step is not None else None
    if step is None or not isinstance(layer, nn.Linear):
        return no_last_layer()
    name = step.module
    if (unfit := unfit_weight(name, layer, initialisation)) is not None:
        return unfit
    steps = [s for s in trace.steps if weight_name(name) in _weights_of(s)]
    if len(steps) != 1 or steps[0] is not step or weight_name(name) in trace.looked_at:
        return Reason("used elsewhere", name, f"the weight of '{name}' is used more than once")
    after = list(_after(trace, step))
    if (reason := _not_linear(trace, step, after)) is not None:
        return reason
    rows = len(step.shapes[0]) == 2 and step.shapes[0][0] == 2
    ends = rows and all(s.name in SAME_ORDER for s in after)
    return LastLayer(name, step.shapes[0][-1], ends, centred_law(name, initialisation))


def no_last_layer() -> Reason:
    return Reason("no last layer", "", "the model does not end in a Linear layer")


def _after(trace: Trace, step: Step) -> Iterator[Step]:
    """Steps from this one to the output."""
    needed, reached = trace.needed(), {Ref(step.index)}
    for s in trace.steps:
        if s.index in needed and any(r in reached for r in refs_in((s.args, s.kwargs))):
            reached |= {Ref(s.index, i) for i in range(len(s.shapes))}
            yield s


def _not_linear(trace: Trace, step: Step, after: list[Step]) -> Reason | None:
    """Why the outputs are not linear in what this step makes, or do not come from it alone."""
    name = step.module
    own = {step.index} | {s.index for s in after}

    for s in after:
        arguments: Any = (s.args, s.kwargs)
        refs = list(refs_in(arguments))
        if any(r.step not in own for r in refs):
            return Reason("other way", name, f"x also reaches the output around '{name}'")
        alone = len(refs) == 1 and isinstance(s.args[0], Ref)
        if s.name not in SUMS and not (s.name in LINEAR and alone):
            return Reason("not linear", name, f"the output is not linear in the weight of '{name}' ({s.where} follows)")
        if any(True for _ in (*weights_in(arguments), *others_in(arguments))):
            return Reason("other way", name, f"other parameters reach the output around '{name}'")
    return None
