"""What is known about a network that may be changed: its layers in order, its options; and a change as a value."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing.edits import Edit, Edited, Place, fitted, places_in
from netgrain.auditing.model_options import BUILTIN, options_of, with_options
from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.families.prepared import Prepared
from netgrain.models.specs import ModelSpec


@dataclass(frozen=True, eq=False)
class Change:
    """One thing to try.

    Parameters
    ----------
    change : str
        What it is, for a table.
    action : str
        What the user types or edits.
    kind : str
        What it is about: "pool", "norm", "preprocessing" …
    family : callable
        The changed family.
    choosing : callable, optional
        The family to choose by where the change was fitted on labels: fitted on the other half of the samples.
    """

    change: str
    action: str
    kind: str
    family: Family
    choosing: Family | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """What candidates are made from: the family, its layers in order, and the samples."""

    make: Family
    X: Tensor
    model: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", member(self.make, 0, 0))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.X.shape[1:])

    @cached_property
    def places(self) -> list[Place]:
        """Modules without modules inside, in the order of their calls; those used twice are left alone, too."""
        return [p for p in places_in(self.model, self.shape) if not isinstance(p.module, torch.jit.ScriptModule)]

    def of(self, *kinds: type[nn.Module]) -> list[Place]:
        return [p for p in self.places if isinstance(p.module, kinds)]

    @cached_property
    def outputs(self) -> int:
        with torch.no_grad():
            return forward(self.model, torch.zeros(1, *self.shape, dtype=model_dtype(self.model))).shape[1]

    @property
    def builtin(self) -> type[nn.Module] | None:
        """The class of a built-in model."""
        return next((kind for kind in BUILTIN if isinstance(self.model, kind)), None)

    @cached_property
    def options(self) -> dict[str, Any]:
        """What a built-in model was made with, defaults included."""
        if self.builtin is None:
            return {}
        given = options_of(self.make)
        defaults = {p.name: p.default for p in inspect.signature(self.builtin).parameters.values()}
        return {**defaults, **given}


Candidate = Change | None  # None: it does not fit


def option_change(known: Known, kind: str, change: str, **values: Any) -> Candidate:
    try:
        family = with_options(known.make, **values)
        with torch.no_grad():
            model = member(family, 0, 0)
            outputs = forward(model, torch.zeros(2, *known.shape, dtype=model_dtype(model))).shape[1]
    except Exception:  # an option that this model or input cannot have
        return None
    written = ",".join(f"{k}={'none' if v is None else v}" for k, v in values.items())
    name = family.name if isinstance(family, ModelSpec) else ""
    inner = family.make if isinstance(family, Prepared) else None
    if isinstance(inner, ModelSpec):
        name = inner.name
    action = f"use the model {name}" if name else f"set {written} in {type(known.model).__name__}"
    return Change(change, action, kind, family) if outputs == known.outputs else None


def layer_change(known: Known, kind: str, change: str, action: str, edits: dict[str, Edit]) -> Candidate:
    """A change of layers, with what it makes necessary."""
    try:
        family = fitted(Edited(known.make, edits), known.shape)
    except Exception:  # the user's modules may raise anything when they are copied or called
        return None
    if family is None:
        return None
    new = [f"'{name}' = Linear({edit.keywords['inputs']}, …)" for name, edit in _made_anew(family, edits)]
    matching = f"; to match, {' and '.join(new)}" if new else ""
    return Change(change, action + matching, kind, family)


def _made_anew(family: Edited, edits: dict[str, Edit]) -> list[tuple[str, Any]]:
    return [(name, edit) for name, edit in family.edits.items() if name not in edits]


def listed(places: list[Place]) -> str:
    names = [f"'{p.name}'" for p in places]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
