"""A family with named submodules replaced by others, which is a family itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, built, family_name, forward, member, model_dtype
from netgrain.runtime.errors import NetgrainError, did_you_mean

MOST_NAMES = 60  # submodules listed in a message

Replacement = nn.Module | Callable[[], nn.Module]


@dataclass(frozen=True, eq=False)
class Swapped:
    """A family with named submodules replaced; called, it returns a fresh module, so it is a family itself.

    A replacement is a module (copied for every member, its parameters drawn anew by reset_parameters) or a callable
    that returns a fresh one. All other weights of member i are those of member i of the family it was made from.

    >>> family = Swapped(lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()), {"1": nn.Tanh()})
    >>> family()[1], family.name
    (Tanh(), 'Sequential with 1 → Tanh()')
    """

    make: Family
    swap: Mapping[str, Replacement]
    name: str = field(init=False)

    def __post_init__(self) -> None:
        model = member(self.make, 0, 0)
        _check_swap(model, self.swap)
        object.__setattr__(self, "swap", dict(self.swap))
        object.__setattr__(self, "name", f"{family_name(self.make, model)} with {self.changes}")

    @property
    def changes(self) -> str:
        return ", ".join(f"{name} → {_called(new)}" for name, new in self.swap.items())

    def check_fits(self, shape: tuple[int, ...]) -> None:
        """Refuse replacements with which the network does not run."""
        model = member(self, 0, 0)
        try:
            with torch.no_grad():
                forward(model, torch.zeros(2, *shape, dtype=model_dtype(model)))
        except NetgrainError as e:
            why = str(e.__cause__ or e).strip().splitlines()[0]
            swapped = ", ".join(f"'{name}'" for name in self.swap)
            raise NetgrainError(
                f"the network runs on inputs of shape {shape}, but not with {swapped} replaced ({why}); "
                "expected modules that give the next layer what it takes."
            ) from e

    def __call__(self) -> nn.Module:
        model = built(self.make)
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
        for name, new in self.swap.items():
            parent, _, leaf = name.rpartition(".")
            fresh = _fresh(name, new, like).train(model.training)
            setattr(model.get_submodule(parent), leaf, fresh)
        return model


def _fresh(name: str, new: Replacement, like: Tensor) -> nn.Module:
    if not isinstance(new, nn.Module):
        made = new()
        if not isinstance(made, nn.Module):
            raise NetgrainError(
                f"the replacement of '{name}' returned {type(made).__name__}; expected a torch.nn.Module."
            )
        return made.to(like.device, like.dtype)
    # to the model's device first: while a closed form is looked for, that is one where nothing is drawn
    fresh = copy.deepcopy(new).to(like.device, like.dtype)
    for part in fresh.modules():
        if _own_parameters(part):
            part.reset_parameters()  # type: ignore[operator]  # looked at in _check_swap
    return fresh


def _own_parameters(part: nn.Module) -> bool:
    return any(True for _ in part.parameters(recurse=False))


def _check_swap(model: nn.Module, swap: Mapping[str, Replacement]) -> None:
    if not isinstance(swap, Mapping) or not swap:
        raise NetgrainError(f"expected swap as a dictionary of names and modules, found {swap!r}.")
    names = [name for name, _ in model.named_modules() if name]
    for name, new in swap.items():
        if name not in names:
            listed = ", ".join(names[:MOST_NAMES]) + (
                f" and {len(names) - MOST_NAMES} more" * (len(names) > MOST_NAMES)
            )
            raise NetgrainError(
                f"{type(model).__name__} has no submodule {name!r}.{did_you_mean(str(name), names)} "
                f"Its submodules: {listed or 'none'}."
            )
        if inside := [other for other in swap if name.startswith(f"{other}.")]:
            raise NetgrainError(f"swap replaces '{inside[0]}' and '{name}' inside it; keep one of them.")
        if isinstance(new, nn.Module):
            for where, part in new.named_modules():
                if _own_parameters(part) and not callable(getattr(part, "reset_parameters", None)):
                    inner = f"'{where}' of the" if where else "the"
                    raise NetgrainError(
                        f"{inner} replacement of '{name}' ({type(part).__name__}) has parameters and no "
                        "reset_parameters, so members would share them; pass a function that returns a fresh module."
                    )
        elif not callable(new):
            raise NetgrainError(
                f"the replacement of '{name}' is {type(new).__name__}; expected a module, or a callable that "
                "returns one."
            )


def _called(new: Replacement) -> str:
    if isinstance(new, nn.Module):
        return " ".join(repr(new).split())
    return getattr(new, "__name__", None) or type(new).__name__
