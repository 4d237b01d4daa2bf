"""Fresh draws of tensors whose law no program tells, and tests beyond those of `netgrain.families.weight_law`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, member
from netgrain.runtime.randomness import derived_seed

ENTRIES = 2**16  # of one tensor, that are kept of each draw
OTHERS = 256  # entries of other parameters that independence is tested against


class CannotRead(Exception):
    """Why the law of a tensor is not known: one clause that names it."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One tensor in n draws."""

    shape: tuple[int, ...]
    entries: Tensor  # (n, at most ENTRIES), the same places in each draw
    squares: tuple[Tensor, Tensor, Tensor]  # Σ of squares over: each row; each place of a row; all. (n, groups)
    fixed: int  # entries of the whole tensor that are the same in all draws
    constant: float | None  # the value where all entries are one number, in all draws


@dataclass(frozen=True, eq=False)
class Draws:
    """Tensors of n fresh members, and a few entries of each of their parameters."""

    count: int
    tensors: dict[str, Drawn]
    few: dict[str, Tensor]  # (n, few) for every parameter

    def of(self, name: str) -> Drawn:
        if name not in self.tensors:
            raise CannotRead(f"'{name}': not every member has it, in one shape")
        return self.tensors[name]

    def others(self, name: str) -> Tensor:
        """Entries of all other parameters, (n, at most OTHERS)."""
        pieces = [t for other, t in self.few.items() if other != name]
        return torch.cat([torch.zeros(self.count, 0), *pieces], 1)[:, :OTHERS]


class _Collector:
    """Reduces one tensor, draw after draw."""

    def __init__(self, name: str, t: Tensor, seed: int) -> None:
        generator = torch.Generator().manual_seed(derived_seed(seed, "entries", name))
        size = t.numel()
        self.first = t.detach().clone()
        self.places = torch.randperm(size, generator=generator)[:ENTRIES].sort().values
        self.moved = torch.zeros(t.shape, dtype=torch.bool)
        self.entries: list[Tensor] = []
        self.squares: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, t: Tensor) -> None:
        self.moved |= t != self.first
        self.entries.append(t.flatten()[self.places].float())
        squared = t.reshape(len(t) if t.dim() else 1, -1).double().square()
        self.squares.append((squared.sum(1), squared.sum(0)[:ENTRIES], squared.sum()[None]))

    def result(self) -> Drawn:
        fixed = int((~self.moved).sum())
        low, high = (float(f(self.first.double())) if self.first.numel() else 0.0 for f in (torch.min, torch.max))
        constant = low if fixed == self.first.numel() and low == high else None
        rows, columns, total = (torch.stack(group) for group in zip(*self.squares, strict=True))
        return Drawn(tuple(self.first.shape), torch.stack(self.entries), (rows, columns, total), fixed, constant)


def draw(make: Family, names: Sequence[str], count: int, seed: int) -> Draws:
    """The named tensors in `count` fresh members, without those that differ in shape between members."""
    collectors: dict[str, _Collector] = {}
    places: dict[str, Tensor] = {}
    few: dict[str, list[Tensor]] = {}
    for i in range(count):
        model = member(make, seed, i)
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        if i == 0:
            collectors = {n: _Collector(n, tensors[n], seed) for n in names if n in tensors}
            places = _few_places(model, seed)
            few = {n: [] for n in places}
        for name, collector in list(collectors.items()):
            if name in tensors and tensors[name].shape == collector.first.shape:
                collector.add(tensors[name])
            else:
                del collectors[name]
        for name in list(few):
            if name in tensors and tensors[name].numel() > int(places[name].max()):
                few[name].append(tensors[name].flatten()[places[name]].float())
            else:
                del few[name]
    return Draws(count, {n: c.result() for n, c in collectors.items()}, {n: torch.stack(r) for n, r in few.items()})


def _few_places(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """A few random places in every parameter."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "others"))
    parameters = [(n, p) for n, p in model.named_parameters() if p.numel() and not p.is_complex()]
    each = max(1, OTHERS // max(len(parameters), 1))
    return {n: torch.randint(p.numel(), (min(each, p.numel()),), generator=generator) for n, p in parameters}


def refusal(drawn: Drawn) -> str | None:
    """Why entries cannot be independent draws of one law without atoms, or None.

    Sums of squares over rows, columns and the whole tensor must scatter as for independent entries:
    orthogonal matrices (too little) and a common random scale (too much) pass every test of correlations.
    """
    size = math.prod(drawn.shape)
    if drawn.fixed:
        how_many = "its" if drawn.fixed == size else f"{drawn.fixed} of its {size}"
        return f"{how_many} weights are not random (the same in every member)"
    entries = drawn.entries.double()
    zeros = float((entries == 0).double().mean())
    if zeros > 1e-3:
        return f"{zeros:.1%} of its weights are exactly zero"
    of_square = float(entries.square().var())
    rows, columns = drawn.squares[0].shape[1], drawn.squares[1].shape[1]
    if of_square < 1e-9 * float(entries.square().mean()) ** 2 or not rows or not columns:
        return None  # signs: every square is the same
    sizes = {"rows": size // rows, "columns": rows, "whole": size}
    for (what, group), squares in zip(sizes.items(), drawn.squares, strict=True):
        centred = squares - squares.mean()
        scatter = float(centred.square().mean())
        ratio = scatter / (of_square * group)
        tail = float(centred.pow(4).mean()) / scatter**2 if scatter else 0.0
        if ratio < 1e-6 or abs(ratio - 1) > 0.1 + 6 * math.sqrt(max(tail - 1, 0) / squares.numel()):
            return f"its weights are not independent (squared norms of {what} scatter {ratio:.2g} times as expected)"
    return None
