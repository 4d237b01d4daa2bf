"""What rules share: one rule per torch function says what it makes of a channel, and how it sends the
second moments of gradients back.

Rules that mix channels with random weights end one stretch of the network and begin the next: there, and only there,
are random slopes averaged over. See docs/closed_form.md for the derivations.

To add a rule, write a function with ``@rule("name")`` in any file of this folder: all of them are loaded.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from torch import Tensor

from netgrain.closed_form.channels import Channel, ConstantChannel, NeedsMembers, summed
from netgrain.closed_form.feature_maps import (
    CHANNEL,
    Axes,
    ChannelBlock,
    FeatureMap,
    Part,
    Pointwise,
    StepKind,
    Term,
    arranged,
)
from netgrain.closed_form.moments import Moment
from netgrain.families.initialisation import TensorLaw
from netgrain.families.trace import Ref, Step, Unsupported, Weight


class Pass(Protocol):
    """What a rule may ask of the pass it runs in."""

    observing: bool  # channels come from real members
    data_statistics: bool  # batch norms were calibrated on data
    tracking: bool  # directions are followed, so that slopes and gradients may depend on each other
    collecting: bool  # gradients by the weights are multiplied

    def law(self, weight: Weight, step: Step) -> TensorLaw: ...
    def use_weight(self, weight: Weight, step: Step) -> TensorLaw: ...
    def shape(self, weight: Weight) -> tuple[int, ...]: ...
    def tensor(self, ref: Ref) -> Tensor: ...
    def real(self, value: Any, step: Step) -> Tensor: ...

    def average(self, term: Term) -> Term: ...
    def note(self, step: Step, kind: StepKind) -> None: ...
    def normalises(self, channels: int) -> None: ...  # a norm takes statistics over so many channels
    def leaves_out(self, what: str) -> None: ...
    def varies_over(self, positions: int) -> None: ...  # slopes, or factors, differ between so many positions
    def first_layer(self, law: TensorLaw, fan_in: int) -> None: ...
    def collect(self, weight: Weight, gradients: Moment, inputs: Moment | None, channels: int) -> None: ...


LayerRule = Callable[[Step, list[FeatureMap], Pass], "FeatureMap | list[FeatureMap]"]
RULES: dict[str, LayerRule] = {}
KNOW_LAYOUTS: set[str] = set()  # rules that are given values with a layout as they are


def rule(*names: str, layouts: bool = False) -> Callable[[LayerRule], LayerRule]:
    """Register a layer rule: what a torch function does to channels and gradients.

    A rule is a function ``(step, values, run)`` that turns the feature maps `values` into the one
    that the step makes (or a list of them), and says how it sends gradients back. It raises
    ``Unsupported`` for a call that it does not know.

    Parameters
    ----------
    *names : str
        Names of torch functions without underscores, as in ``"conv2d"`` or ``"add"``.
    layouts : bool, default False
        Whether the rule knows what to do with a tensor whose batch was moved or whose channels were
        split (``FeatureMap.layout``).

    Returns
    -------
    callable
        A decorator that registers the rule and returns it unchanged.

    Examples
    --------
    Every file of ``closed_form/rules`` is loaded, so a rule needs nothing but its decorator.

    >>> @rule("a function of your own")
    ... def _unchanged(step, values, run):
    ...     return values[0]
    >>> RULES.pop("a function of your own") is _unchanged
    True
    """

    def register(function: LayerRule) -> LayerRule:
        for name in names:
            RULES[name] = function
        KNOW_LAYOUTS.update(names if layouts else ())
        return function

    return register


def arguments(step: Step, *names: str, **defaults: Any) -> list[Any]:
    """The arguments after the tensor, by position or by name."""
    given = dict(zip(names, step.args[1:], strict=False)) | step.kwargs
    return [given.get(name, defaults.get(name)) for name in names]


def renumbered(axes: Axes, order: Sequence[int]) -> Axes:
    place = {k: i for i, k in enumerate(order)} | {CHANNEL: CHANNEL}
    return tuple(tuple(place[k] for k in axis) for axis in axes)


def per_axis(value: Any, dims: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) if len(value) == dims else tuple(value) * dims


def channels_first(x: FeatureMap, step: Step) -> FeatureMap:
    """(channels, positions…) with the positions in the order of the axes."""
    if any(CHANNEL in axis for axis in x.axes[1:]):
        raise Unsupported(f"{step.where} acts on channels as if they were positions")
    dims = len(x.axes) - 1
    inner = [k for k in x.axes[0] if k != CHANNEL]
    if not inner:
        return arranged(x, [list(axis) for axis in x.axes[1:]], (x.axes[0], *((i,) for i in range(dims))), step)
    # the input's own channels are positions too: leave them in front
    if CHANNEL in x.axes[0]:
        raise Unsupported(f"{step.where} acts on channels that were flattened with positions")
    visible = [k for axis in x.axes for k in axis]
    if len(inner) == 1 and visible == list(range(len(visible))):
        return x
    raise Unsupported(f"{step.where} acts on a rearranged input")


def affine_map(step: Step, x: FeatureMap, gain: float, shift: float, run: Pass) -> FeatureMap:
    def changed(b: ChannelBlock) -> Channel:
        if run.observing:
            return b.channel
        scaled = b.channel.scaled(gain)
        return scaled if shift == 0 else summed(scaled, ConstantChannel(shift, b.channel.sizes))

    blocks = tuple(replace(b, channel=changed(b), fresh=b.fresh and shift == 0) for b in x.blocks)

    def send(block: int, term: Term) -> None:
        if gain != 0:
            x.receive(block, term.scaled(gain**2))

    parts = (Part(x, gain),) if shift == 0 else ()
    along = Pointwise.of(x).then(lambda _: gain)
    return FeatureMap(x.axes, x.sizes, blocks, step, send, parts=parts, pointwise=along)


def followed_locally(step: Step, why: str, run: Pass) -> None:
    """Note a step without a formula, which is followed at the values of members."""
    if not run.observing:
        raise NeedsMembers(f"{step.where} {why}")
    run.note(step, "local")


for _file in pkgutil.iter_modules(__path__):  # after everything that a file of rules imports from here
    importlib.import_module(f"{__name__}.{_file.name}")
