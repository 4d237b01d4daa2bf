"""What a network starts without: factors at (or near) zero that training has to switch on first.

A residual branch may end in a norm whose weight starts at zero, in a gain of zero or in a LayerScale of 10⁻⁶, and the
last layer may start at zero. At initialisation G then sees the skip path alone, or nothing at all. The trace tells
which parameter multiplies what, the initialisation where it starts. Only a module that cannot be traced is judged by
the names of its parameters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from netgrain.families.calls import is_leaf
from netgrain.families.ends import BLANK
from netgrain.families.members import model_dtype
from netgrain.families.trace import WEIGHTED, Other, Ref, Step, Trace, Unsupported, Weight, record, refs_in

if TYPE_CHECKING:
    from netgrain.families.reading import Reading

OffKind = Literal["head", "norm", "gain", "layer scale", "layer", "response norm"]
SMALL = 1e-2  # a constant factor up to here is one that a branch starts without
NAMED = 3  # parameters that a result names
NORMS = {"batch_norm": 3, "instance_norm": 3, "layer_norm": 2, "group_norm": 2, "rms_norm": 2}  # place of the weight
PRODUCTS = {"mul", "rmul", "imul", "multiply"}
SUMS = {"add", "radd", "iadd", "addcmul"}
# of a module that cannot be traced
FACTORS = re.compile(r"(gamma.*|ls_?\d*|layer_?scale.*|.*gain)")


@dataclass(frozen=True)
class OffPart:
    """Parameters of one kind that start at (or near) zero.

    Parameters
    ----------
    kind : {"head", "norm", "gain", "layer scale", "layer", "response norm"}
        The last layer, weights of norms, gains of zero, small constant factors of branches, layers
        inside, or global response norms (which are the identity at zero).
    count : int
        Number of them.
    of : int
        Number of parameters of this kind, whatever they start at.
    names : tuple of str
        The first few.
    value : float, default 0
        Where they start.
    """

    kind: OffKind
    count: int
    of: int
    names: tuple[str, ...]
    value: float = 0.0

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.names) else ""
        named = ", ".join(f"'{n}'" for n in self.names) + more
        number = f"{self.count} of {self.of}" if self.count < self.of else f"all {self.count}"
        if self.kind == "head":
            return f"the last layer starts at zero ({named})"
        if self.kind == "layer scale":
            return f"{number} layer scales start at {self.value:g} ({named})"
        if self.kind == "response norm":
            return f"{number} response norms start as the identity ({named})"
        what = {"norm": "norms start with weight zero", "gain": "gains start at zero", "layer": "layers start at zero"}
        return f"{number} {what[self.kind]} ({named})"


@dataclass(frozen=True)
class SwitchedOff:
    """What a family of networks starts without.

    Parameters
    ----------
    parts : tuple of OffPart
        By kind, the ones with the largest effect first.
    zero : bool, default False
        Whether no input reaches the output, so that G = 0.

    Examples
    --------
    >>> off = SwitchedOff((OffPart("norm", 8, 20, ("layer1.0.bn2.weight",)),))
    >>> print(off.sentence())
    off at initialisation: 8 of 20 norms start with weight zero ('layer1.0.bn2.weight', …), so G sees only \
the skip paths around them; switched_on=True switches everything on, and geometry_of or GeometryTracker measure the \
first steps of training
    """

    parts: tuple[OffPart, ...]
    zero: bool = False

    @property
    def matters(self) -> bool:
        """Whether anything is off; a response norm at zero is only worth a note."""
        return any(part.kind != "response norm" for part in self.parts)

    @property
    def what(self) -> str:
        """What starts where, in words."""
        return "; ".join(map(str, self.parts))

    @property
    def effect(self) -> str:
        """What that means for G, in words."""
        if self.zero:
            return "so that G = 0"
        if not self.matters:
            return "so that G does not see them"
        near = all(part.kind in ("layer scale", "response norm") for part in self.parts)
        return f"so G sees {'almost ' if near else ''}only the skip paths around them"

    def sentence(self, option: str = "switched_on=True") -> str:
        """What is off, what that means, and the two ways on.

        Parameters
        ----------
        option : str, default "switched_on=True"
            How the reader spells the option that switches everything on.

        Returns
        -------
        str
            One clause.
        """
        if not self.matters:
            return f"{self.what}, {self.effect}"
        head = any(part.kind == "head" for part in self.parts)
        law = " (the last layer gets a centred law, on which only the scale of G depends)" if head else ""
        return (
            f"off at initialisation: {self.what}, {self.effect}; {option} switches everything on{law}, and geometry_of "
            "or GeometryTracker measure the first steps of training"
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SwitchedOff:
        """Rebuild from plain values.

        Parameters
        ----------
        values : dict
            As ``dataclasses.asdict`` gives them.

        Returns
        -------
        SwitchedOff
            The same.
        """
        parts = tuple(OffPart(**{**part, "names": tuple(part["names"])}) for part in values["parts"])
        return cls(parts, bool(values["zero"]))


@dataclass(frozen=True)
class Switch:
    """One factor that starts at (or near) zero; parameter: what sets it, empty where no single one does."""

    kind: OffKind
    parameter: str
    value: float


@dataclass(frozen=True, eq=False)
class Switches:
    """All factors of a family that start at (or near) zero, and what that amounts to."""

    found: tuple[Switch, ...]
    off: SwitchedOff | None


def switches_of(reading: Reading) -> Switches:
    """Which factors of a family start at (or near) zero.

    >>> from netgrain.families.reading import read
    >>> def make():
    ...     net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    ...     nn.init.zeros_(net[2].weight)
    ...     return net
    >>> off = switches_of(read(make, (4,))).off
    >>> off.zero, off.what
    (True, "the last layer starts at zero ('2.weight')")
    """
    if not isinstance(reading.trace, Trace):
        return _by_names(reading.member)
    return _Factors(reading, reading.trace).switches()


def _summed(found: list[Switch], totals: dict[OffKind, int], zero: bool) -> Switches:
    """The switches of every kind together."""
    order: tuple[OffKind, ...] = ("head", "norm", "gain", "layer scale", "layer", "response norm")
    parts = []
    for kind in order:
        own = [s for s in found if s.kind == kind]
        names = tuple(dict.fromkeys(s.parameter for s in own if s.parameter))[:NAMED]
        if own:
            parts.append(OffPart(kind, len(own), max(totals.get(kind, 0), len(own)), names, own[0].value))
    return Switches(tuple(found), SwitchedOff(tuple(parts), zero) if parts else None)


# --- by structure -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Factor:
    """A value that depends on x, and what multiplies it in some step."""

    step: Step
    source: Ref
    role: Literal["norm", "product", "layer"]
    by: Weight | Other
    place: int | str  # of `by` among the arguments of the step

    @property
    def names(self) -> tuple[str, ...]:
        return (self.by.name,) if isinstance(self.by, Weight) else tuple(sorted(self.by.weights))

    def in_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What multiplies, among the real arguments of the step."""
        return args[self.place] if isinstance(self.place, int) else kwargs[self.place]


def _factors_in(step: Step) -> Iterator[_Factor]:
    """The products of a step with something that does not depend on x."""

    def factor(role: Literal["norm", "product", "layer"], source: int | str, place: int | str) -> Iterator[_Factor]:
        x, by = _argument(step, source), _argument(step, place)
        if isinstance(x, Ref) and isinstance(by, Weight | Other):
            yield _Factor(step, x, role, by, place)

    if step.name in NORMS:
        yield from factor("norm", _place(step, 0, "input"), _place(step, NORMS[step.name], "weight"))
    elif step.name in WEIGHTED:
        yield from factor("layer", _place(step, 0, "input"), _place(step, 1, "weight"))
    elif step.name in PRODUCTS:
        yield from factor("product", 0, 1)
        yield from factor("product", 1, 0)
    elif step.name == "addcmul":
        yield from factor("product", 1, 2)
        yield from factor("product", 2, 1)


def _place(step: Step, index: int, name: str) -> int | str:
    return name if name in step.kwargs else index


def _argument(step: Step, place: int | str) -> Any:
    if isinstance(place, str):
        return step.kwargs.get(place)
    return step.args[place] if place < len(step.args) else None


class _Factors:
    """All factors of a traced network, and where they start."""

    def __init__(self, reading: Reading, trace: Trace) -> None:
        self.reading, self.trace = reading, trace
        self.parameters = dict(reading.model.named_parameters())
        needed = trace.needed()
        self.refs = {s.index: tuple(refs_in((s.args, s.kwargs))) for s in trace.steps if s.index in needed}
        self.steps = [s for s in trace.steps if s.index in needed]
        self.factors = [
            f for s in self.steps for f in _factors_in(s) if any(name in self.parameters for name in f.names)
        ]

    def switches(self) -> Switches:
        found: dict[object, Switch] = {}
        cut: list[_Factor] = []
        for factor in self.factors:
            value = self._value(factor)
            if value is None or abs(value) > SMALL or (value != 0 and factor.role != "product"):
                continue
            if value == 0:
                cut.append(factor)
            kind = self._kind(factor, value)
            if kind is not None:
                switch = Switch(kind, self._parameter(factor, value), value)
                found.setdefault(switch.parameter or factor, switch)
        zero = bool(cut) and not self._reaches(cut)
        return _summed(list(found.values()), self._totals(), zero)

    def _kind(self, factor: _Factor, value: float) -> OffKind | None:
        if factor.role == "norm":
            return "norm"
        if factor.role == "layer":
            if self._gain(factor):
                return "gain"
            return "head" if self._is_last(factor.step) else "layer"
        if value == 0:
            return "response norm" if self._keeps_its_input(factor.step) else "gain"
        # on the only way to the output a small factor changes nothing but the scale of G
        return "layer scale" if self._reaches([factor]) else None

    def _parameter(self, factor: _Factor, value: float) -> str:
        """The parameter that sets a factor; empty where it is computed in another way."""
        if isinstance(factor.by, Weight):
            return factor.by.name
        if factor.role == "layer":
            return self._gain(factor) or ""
        starts = {n: self._start(n) for n in factor.names if n in self.parameters}
        # a member holds its numbers in single precision
        own = [n for n, start in starts.items() if start is not None and math.isclose(start, value, rel_tol=1e-5)]
        return own[0] if len(own) == 1 else ""

    def _gain(self, factor: _Factor) -> str | None:
        """The parameter that multiplies every channel of a layer's weight, as that of a standardised convolution."""
        if not isinstance(factor.by, Other):
            return None
        for name in factor.names:
            p = self.parameters.get(name)
            if p is not None and p.numel() in (1, factor.by.shape[0]) and self._start(name) == 0:
                return name
        return None

    def _totals(self) -> dict[OffKind, int]:
        def count(keep: Callable[[_Factor], bool]) -> int:
            return len({f.names for f in self.factors if keep(f)})

        products = count(lambda f: f.role == "product")
        computed = count(lambda f: f.role == "layer" and isinstance(f.by, Other))
        return {
            "head": 0,  # there are as many as were found
            "norm": count(lambda f: f.role == "norm"),
            "gain": computed or products,
            "layer scale": products,
            "layer": count(lambda f: f.role == "layer"),
            "response norm": 0,
        }

    # --- where a factor starts

    def _value(self, factor: _Factor) -> float | None:
        """The one number that a factor consists of; None if it has several, or random ones."""
        if isinstance(factor.by, Weight):
            return self._start(factor.by.name)
        # a computed factor (reshaped, 1 + w, exp w) is looked at in a member that runs, if one of its sources is small
        starts = [self._start(n) for n in factor.names if n in self.parameters]
        if not any(start is not None and abs(start) <= SMALL for start in starts):
            return None
        return self._seen.get((factor.step.index, factor.place))

    def _start(self, name: str) -> float | None:
        """Where a parameter starts, if all its entries do."""
        known = self.reading.initialisation.recorded(name)
        if known.base != "unknown":
            return known.shift if known.base == "constant" else None
        tensors = dict(self.reading.member.named_parameters())
        return _constant(tensors[name]) if name in tensors else None

    @cached_property
    def _seen(self) -> dict[tuple[int, int | str], float]:
        """Computed factors that are constant, by step and place, in one pass of member 0."""
        wanted: dict[int, list[_Factor]] = {}
        for factor in self.factors:
            if isinstance(factor.by, Other):
                wanted.setdefault(factor.step.index, []).append(factor)
        seen: dict[tuple[int, int | str], float] = {}

        def look(index: int, _name: str, _function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            for factor in wanted.get(index, ()):
                value = factor.in_call(args, kwargs)
                if isinstance(value, Tensor) and (constant := _constant(value)) is not None:
                    seen[index, factor.place] = constant

        member = self.reading.member
        with suppress(Unsupported):  # as far as it came
            record(member, torch.zeros(2, *self.reading.input_shape, dtype=model_dtype(member)), look=look)
        return seen

    # --- where a factor stands

    def _reaches(self, cut: list[_Factor]) -> bool:
        """Whether x reaches the output without passing these factors."""
        closed = {(f.step.index, f.source) for f in cut}
        reached = {Ref(-1)}
        for s in self.steps:
            if s.name not in BLANK and any(r in reached and (s.index, r) not in closed for r in self.refs[s.index]):
                reached |= {Ref(s.index, i) for i in range(len(s.shapes))}
        return self.trace.output in reached

    def _is_last(self, step: Step) -> bool:
        """Whether no further layer follows."""
        reached = {step.index}
        for s in self.steps:
            if s.index != step.index and any(r.step in reached for r in self.refs[s.index]):
                if s.name in WEIGHTED:
                    return False
                reached.add(s.index)
        return True

    def _keeps_its_input(self, step: Step) -> bool:
        """Whether the module around a step adds its own input and has no layer inside: x + 0·(…)."""
        if not is_leaf(self.reading.model.get_submodule(step.module)):
            return False
        own = [s for s in self.steps if s.module == step.module]
        inside = {s.index for s in own}
        adds = any(s.name in SUMS and any(r.step not in inside for r in self.refs[s.index]) for s in own)
        return adds and not any(s.name in WEIGHTED for s in own)


def _constant(t: Tensor) -> float | None:
    """The number that all entries are."""
    if t.numel() == 0 or t.is_complex():
        return None
    first = t.detach().flatten()[0]
    return float(first) if bool((t.detach() == first).all()) else None


# --- by names ---------------------------------------------------------------------------------------------------------


def _by_names(model: nn.Module) -> Switches:
    """What can be said of a module that cannot be traced."""
    found: list[Switch] = []
    totals: dict[OffKind, int] = {}
    last = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][-1:]
    # a scripted module knows its modules by name only, and their class from the source
    kinds = {name: getattr(m, "original_name", type(m).__name__) for name, m in model.named_modules()}
    for name, p in model.named_parameters():
        owner, _, leaf = name.rpartition(".")
        value = _constant(p)
        is_norm = leaf == "weight" and "norm" in kinds[owner].casefold()
        is_factor = FACTORS.fullmatch(leaf) is not None
        kind: OffKind | None = "norm" if is_norm else "layer scale" if is_factor else None
        if owner in last and leaf == "weight":
            kind = "head"
        if kind is None:
            continue
        totals[kind] = totals.get(kind, 0) + 1
        if value is not None and abs(value) <= SMALL and (value == 0 or kind == "layer scale"):
            found.append(Switch("gain" if value == 0 and is_factor else kind, name, value))
    return _summed(found, {**totals, "gain": totals.get("layer scale", 0)}, zero=False)
