"""What one change of an architecture gives back: the geometry of a family before and after submodules are swapped."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing.gains import relative_gains
from netgrain.auditing.places import where
from netgrain.families.members import Family, built, family_name, forward, member, model_dtype
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry, corr
from netgrain.runtime.arguments import checked_shape
from netgrain.runtime.errors import NetgrainError, did_you_mean

SHARES = (0.5, 0.9, 0.99)
MOST_DENSE = 1024  # dimensions up to which the difference is decomposed as a whole
ROUNDING = 1e-6  # a gain below this share of an average direction is none
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
        changes = ", ".join(f"{name} → {_called(new)}" for name, new in self.swap.items())
        object.__setattr__(self, "swap", dict(self.swap))
        object.__setattr__(self, "name", f"{family_name(self.make, model)} with {changes}")

    def __call__(self) -> nn.Module:
        model = built(self.make)
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
        for name, new in self.swap.items():
            parent, _, leaf = name.rpartition(".")
            fresh = _fresh(name, new, like).train(model.training)
            setattr(model.get_submodule(parent), leaf, fresh)
        return model


@dataclass(frozen=True, eq=False, repr=False)
class WhatIf:
    """Two geometries and what lies between them.

    `gained` (k, *input_shape) are the directions that gained most: eigenvectors of G'/tr G' − G/tr G (the prime is
    after the change) with the largest positive eigenvalues, as many as there are. `gained_before` and `gained_after`
    are their gains relative to an average direction; where a geometry was sampled, the directions were chosen on the
    same sample, which flatters them a little.
    """

    family: Swapped
    before: Geometry
    after: Geometry
    correlation: Estimate  # Corr(before, after); NaN where one of them is zero
    gained: Tensor  # (k, *input_shape), unit norm
    gained_before: tuple[Estimate, ...]
    gained_after: tuple[Estimate, ...]

    @property
    def directions_for(self) -> dict[float, tuple[int | None, int | None]]:
        """Share of the trace → leading directions that carry it, before and after (None: more than are known)."""
        return {share: (self.before.directions_for(share), self.after.directions_for(share)) for share in SHARES}

    def __repr__(self) -> str:
        changes = ", ".join(f"{name} → {_called(new)}" for name, new in self.family.swap.items())
        for G, when in ((self.before, "before"), (self.after, "after")):
            if G.trace.value == 0:
                return f"WhatIf({changes}: {when} the change the network does not react to its input)"
        counts = [
            "/".join("?" if pair[i] is None else str(pair[i]) for pair in self.directions_for.values()) for i in (0, 1)
        ]
        facts = [
            f"G {where(self.before)}",
            f"directions for 50/90/99 % of the geometry {counts[0]} → {counts[1]} of {self.before.d}",
            f"Corr(before, after) {self.correlation}",
            f"tr G × {self.after.trace.value / self.before.trace.value:.3g}",
        ]
        if len(self.gained):
            facts.append(
                f"the direction that gained most: {self.gained_before[0].value:.3g} → {self.gained_after[0].value:.3g} "
                "times an average one"
            )
        return f"WhatIf({changes}: {'; '.join(facts)})"


def what_if(
    make: Family,
    swap: Mapping[str, Replacement],
    input_shape: Sequence[int],
    *,
    keep: int = 8,
    **options: Any,
) -> WhatIf:
    """The geometry of a family before and after some of its submodules are replaced.

    swap: dotted names of submodules → modules, or callables that return a fresh one. keep: directions that gained most.
    options: those of `ng.average_geometry`, for both, among them probe= (the origin by default, Data(X) for your
    samples); without them the closed form is taken where there is one.

    An average pool over two neighbours hides their difference (1, −1); without the pool its gain is that of their sum:

    >>> def make():
    ...     return nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(1, 1, bias=False))
    >>> swap = {"0": nn.Identity(), "2": nn.Linear(2, 1, bias=False)}
    >>> answer = what_if(make, swap, (1, 2), keep=1)
    >>> answer.directions_for[0.99], answer.gained[0, 0].abs().mul(2**0.5).round(decimals=6).tolist()
    ((1, 2), [1.0, 1.0])
    >>> answer.gained_before[0].value, round(answer.gained_after[0].value, 6)
    (0.0, 1.0)
    """
    shape = checked_shape(input_shape)
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise NetgrainError(f"expected keep as a positive whole number of directions, found {keep!r}.")
    family = Swapped(make, swap)
    before = average_geometry(make, shape, **options)
    _check_fits(family, shape)
    after = average_geometry(family, shape, **options)
    zero = before.trace.value == 0 or after.trace.value == 0
    if zero or before.full_trace is not None or after.full_trace is not None:
        c = Estimate(float("nan")) if zero else corr(before, after)
        return WhatIf(family, before, after, c, torch.zeros(0, *shape, dtype=torch.float64), (), ())
    gained = _gained(before, after, min(keep, before.d)).reshape(-1, *shape)
    measured = [_estimates(G, gained) for G in (before, after)]
    return WhatIf(family, before, after, corr(before, after), gained, *measured)


def _gained(before: Geometry, after: Geometry, k: int) -> Tensor:
    """Eigenvectors (≤ k, d) of the largest positive eigenvalues of G'/tr G' − G/tr G."""
    a, b = after.trace.value, before.trace.value
    if before.d <= MOST_DENSE:
        difference = after.matrix() / a - before.matrix() / b
        ascending, columns = torch.linalg.eigh(difference)
        values, vectors = ascending.flip(0)[:k], columns.T.flip(0)[:k]
        least = float(ascending[0])
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        def times(v: Any) -> Any:
            column = torch.from_numpy(v.reshape(1, -1).copy())
            return (after.form.matvec(column) / a - before.form.matvec(column) / b)[0].numpy()

        start = torch.randn(before.d, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
        operator = LinearOperator((before.d, before.d), matvec=times, dtype=start.dtype)
        found, rows = eigsh(operator, k, which="LA", v0=start, tol=1e-6)
        order = found.argsort()[::-1].copy()
        values, vectors = torch.from_numpy(found[order]), torch.from_numpy(rows.T[order])
        least = -float(values[0])
    # the rest of the difference: directions that stayed or lost
    vectors = vectors[values > max(ROUNDING / before.d, ROUNDING * abs(least))]
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    signed: Tensor = vectors * largest.sign()
    return signed


def _estimates(G: Geometry, U: Tensor) -> tuple[Estimate, ...]:
    values, errors = relative_gains(G, U)
    return tuple(
        Estimate(0.0 if abs(v) < 1e-12 else v, e, G.form.parts)
        for v, e in zip(values.tolist(), errors.tolist(), strict=True)
    )


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
        if any(True for _ in part.parameters(recurse=False)):
            part.reset_parameters()  # type: ignore[operator]  # looked at in _check_swap
    return fresh


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
                own = any(True for _ in part.parameters(recurse=False))
                if own and not callable(getattr(part, "reset_parameters", None)):
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


def _check_fits(family: Swapped, shape: tuple[int, ...]) -> None:
    model = member(family, 0, 0)
    try:
        with torch.no_grad():
            forward(model, torch.zeros(2, *shape, dtype=model_dtype(model)))
    except NetgrainError as e:
        why = str(e.__cause__ or e).strip().splitlines()[0]
        swapped = ", ".join(f"'{name}'" for name in family.swap)
        raise NetgrainError(
            f"the network runs on inputs of shape {shape}, but not with {swapped} replaced ({why}); "
            "expected modules that give the next layer what it takes."
        ) from e


def _called(new: Replacement) -> str:
    if isinstance(new, nn.Module):
        return " ".join(repr(new).split())
    return getattr(new, "__name__", None) or type(new).__name__
