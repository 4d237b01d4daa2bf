"""Families whose modules are changed after they are made: layers edited by name, or something put before the input.

An edit is a function of the module that stands there, so that weights which need not change stay those of the same
member. Where an edit changes the size of what a linear layer gets, that layer is made anew with the right size.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.calls import watching
from netgrain.families.members import Family, built, family_name, forward, member, model_dtype
from netgrain.runtime.errors import NetgrainError

Edit = Callable[[nn.Module], nn.Module]
MOST_RESIZED = 2  # linear layers that one change may make anew
FRONT, NETWORK = "front", "network"


@dataclass(frozen=True, eq=False)
class Edited:
    """A family with some submodules edited; called, it returns a fresh module, so it is a family itself.

    >>> def with_bias(old: nn.Module) -> nn.Module:
    ...     return nn.Linear(old.in_features, old.out_features)
    >>> Edited(lambda: nn.Sequential(nn.Linear(2, 3, bias=False)), {"0": with_bias})()[0]
    Linear(in_features=2, out_features=3, bias=True)
    """

    make: Family
    edits: Mapping[str, Edit]
    front: nn.Module | None = None  # put before the input; it has no parameters

    def __call__(self) -> nn.Module:
        model = built(self.make)
        for name, edit in self.edits.items():
            parent, _, leaf = name.rpartition(".")
            old = model.get_submodule(name)
            like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
            new = edit(old).to(like.device, like.dtype).train(old.training)
            setattr(model.get_submodule(parent), leaf, new)
        if self.front is None:
            return model
        parts = OrderedDict([(FRONT, copy.deepcopy(self.front)), (NETWORK, model)])
        return nn.Sequential(parts).train(model.training)

    @property
    def name(self) -> str:
        return f"{family_name(self.make, member(self.make, 0, 0))}, changed"


@dataclass(frozen=True)
class Place:
    """A call of a module without modules inside: its name, and the shapes of one sample before and after it."""

    name: str
    module: Any  # its settings are looked at by name
    before: tuple[int, ...]
    after: tuple[int, ...]


def places_in(model: nn.Module, shape: tuple[int, ...]) -> list[Place]:
    """Modules without modules inside in the order of their first calls, each once."""
    found: dict[str, Place] = {}

    def leave(name: str, module: nn.Module, output: Any) -> None:
        if name and name not in found and name in entered and isinstance(output, Tensor):
            found[name] = Place(name, module, entered[name], tuple(output.shape[1:]))

    def enter(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not any(True for _ in module.children()) and inputs and isinstance(inputs[0], Tensor):
            entered.setdefault(name, tuple(inputs[0].shape[1:]))

    entered: dict[str, tuple[int, ...]] = {}
    with torch.no_grad(), watching(model, enter, leave):
        forward(model, torch.zeros(2, *shape, dtype=model_dtype(model)))
    return [place for name, place in found.items() if isinstance(model.get_submodule(name), nn.Module)]


def fitted(family: Edited, shape: tuple[int, ...]) -> Edited | None:
    """The family with linear layers of the right size; None if it does not run, or gives other outputs."""
    for _ in range(MOST_RESIZED + 1):
        wrong: list[tuple[str, int]] = []

        def enter(name: str, module: nn.Module, inputs: tuple[Any, ...], wrong: list[Any] = wrong) -> None:
            if not isinstance(module, nn.Linear) or not isinstance(inputs[0], Tensor) or inputs[0].dim() != 2:
                return
            if (size := inputs[0].shape[-1]) != module.in_features:
                wrong.append((name, size))

        try:
            before, model = member(family.make, 0, 0), member(family, 0, 0)
            x = torch.zeros(2, *shape, dtype=model_dtype(model))
            with torch.no_grad():
                outputs = forward(before, x).shape
                with watching(model, enter):
                    return family if forward(model, x).shape == outputs else None
        except NetgrainError:
            if not wrong:
                return None
        except Exception:  # edits call the user's modules, which may raise anything
            return None
        name, size = wrong[0]
        name = name.removeprefix(f"{NETWORK}.") if family.front is not None else name
        if name not in dict(before.named_modules()):  # inside of something that was put there
            return None
        family = replace(family, edits={**family.edits, name: partial(resized, inputs=size)})
    return None


# --- edits ------------------------------------------------------------------------------------------------------------


def resized(old: nn.Module, *, inputs: int) -> nn.Module:
    """A linear layer with as many outputs and so many inputs, its weights drawn anew."""
    assert isinstance(old, nn.Linear)
    return nn.Linear(inputs, old.out_features, bias=old.bias is not None)


def replaced(_: nn.Module, *, make: Callable[[], nn.Module]) -> nn.Module:
    """Another module."""
    return make()


def reset(old: nn.Module, **values: Any) -> nn.Module:
    """The same module, weights and all, with some of its settings changed."""
    for name, value in values.items():
        setattr(old, name, value)
    return old


def followed(old: nn.Module, *, by: Callable[[], nn.Module]) -> nn.Module:
    """The same module with another one behind it."""
    return nn.Sequential(old, by())


def preceded(old: nn.Module, *, by: Callable[[], nn.Module]) -> nn.Module:
    """The same module with another one before it."""
    return nn.Sequential(by(), old)


def another_kernel(old: nn.Module, *, kernel: tuple[int, ...], padding: tuple[int, ...]) -> nn.Module:
    """A convolution with another kernel, its weights drawn anew."""
    assert isinstance(old, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    make: Any = type(old)
    made: nn.Module = make(
        old.in_channels,
        old.out_channels,
        kernel,
        stride=old.stride,
        padding=padding,
        dilation=old.dilation,
        groups=old.groups,
        bias=old.bias is not None,
        padding_mode=old.padding_mode,
    )
    return made


def scaled(old: nn.Module, *, factor: float) -> nn.Module:
    """The same layer with its weights times a factor."""
    with torch.no_grad():
        old.get_parameter("weight").mul_(factor)
    return old


def he_weights(old: nn.Module) -> nn.Module:
    """The same layer with weights of variance 2/inputs, drawn anew, and biases of zero."""
    weight = old.get_parameter("weight")
    with torch.no_grad():
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
        if getattr(old, "bias", None) is not None:
            old.get_parameter("bias").zero_()
    return old
