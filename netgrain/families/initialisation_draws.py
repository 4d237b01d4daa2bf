"""Laws read from fresh draws, for tensors whose law no program tells.

Are the entries centred, of equal variance, uncorrelated, independent of each other and of other parameters? Each is
tested; a law that fails one test is refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, member, tensors_of
from netgrain.families.tensor_law import TensorLaw
from netgrain.runtime.randomness import derived_seed

ENTRIES = 2**16  # of one tensor, that are kept of each draw
OTHERS = 256  # entries of other parameters that independence is tested against
SAMPLE = 4096  # draws that a law keeps
FALSE_ALARM = 1e-4  # chance that a lawful initialisation is refused by one test (it then only costs time)
EXCESS = 0.1  # tolerated excess of the mean squared correlation over that of independent entries


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
        tensors = tensors_of(model)
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


def law_of_draws(drawn: Drawn, others: Tensor, *, seed: int, independent: bool) -> TensorLaw | str:
    """The law of a tensor from its draws and from (n, some) entries of other parameters; or why there is none.

    Second moments alone need E[W] = 0 and E[W_a W_b] = v·δ_ab, whatever else; `independent` asks for more.
    """
    if drawn.constant is not None:
        return TensorLaw(drawn.constant, 0.0, "constant", read_from="draws")
    if independent and (reason := refusal(drawn)):
        return reason
    draws = drawn.entries.double()
    variance = float(draws.square().mean())
    if reason := _not_centred(draws, variance) or _not_uncorrelated(draws, others.double(), variance, seed):
        return reason
    return _centred_law(drawn, variance, seed)


def _not_centred(draws: Tensor, variance: float) -> str | None:
    n = len(draws)
    if variance == 0 or float(draws.var(0).max()) == 0:
        return "its weights are not random"
    pooled = float(draws.mean()) / math.sqrt(variance / draws.numel())
    means = draws.mean(0) / (draws.std(0).clamp(min=1e-300) / math.sqrt(n))
    if abs(pooled) > 5 or _tail(means, n) < FALSE_ALARM:
        return f"its weights do not have mean zero (pooled mean is {abs(pooled):.1f} standard errors away)"
    return None


def _not_uncorrelated(draws: Tensor, others: Tensor, variance: float, seed: int) -> str | None:
    n, entries = draws.shape
    kurtosis = float(draws.pow(4).mean()) / variance**2
    ratios = draws.square().mean(0) / variance - 1
    expected = max(kurtosis - 1, 1e-9) / n
    excess = (float(ratios.square().mean()) / expected - 1) * math.sqrt(entries / 2)
    # entries far more variable than the pooled fourth moment allows, beyond a tenth (short draws estimate it roughly)
    if excess > 6 and float(ratios.square().mean()) > 1.1 * expected:
        return "its weights do not all have the same variance"

    chosen = draws[:, torch.randperm(entries, generator=torch.Generator().manual_seed(seed))[:2048]]
    if (reason := _correlated(chosen, None)) is not None:
        return f"its weights are correlated with each other ({reason})"
    if others.shape[1]:
        varying = others[:, others.std(0) > 0]
        if (reason := _correlated(chosen, varying)) is not None:
            return f"its weights depend on other parameters ({reason})"
        if (reason := _correlated(chosen.abs(), (varying - varying.mean(0)).abs())) is not None:
            return f"the size of its weights depends on other parameters ({reason})"
    return None


def _centred_law(drawn: Drawn, variance: float, seed: int) -> TensorLaw:
    """PyTorch's default where the draws fill it, else what the draws say."""
    draws = drawn.entries.double()
    kurtosis = float(draws.pow(4).mean()) / variance**2
    error = math.sqrt(max(kurtosis - 1, 0.0) / draws.numel())
    fan_in = max(math.prod(drawn.shape[1:]), 1)
    bound = 1 / math.sqrt(fan_in)
    default = bound**2 / 3
    largest = float(draws.abs().max())
    if largest <= bound * (1 + 1e-5) and largest > 0.98 * bound and abs(variance / default - 1) < 5 * error:
        return TensorLaw(0.0, default, "uniform", read_from="draws")
    pooled = draws.flatten()
    cubes = pooled.pow(3)
    skewness = float(cubes.mean()) / (float(cubes.std()) / math.sqrt(cubes.numel()))
    chosen = pooled[torch.randperm(len(pooled), generator=torch.Generator().manual_seed(seed))[:SAMPLE]]
    sample = (chosen - chosen.mean()) * math.sqrt(variance / float(chosen.var(correction=0)))
    return TensorLaw(0.0, variance, "drawn", error, sample, skewness=skewness, read_from="draws")


def _tail(t: Tensor, n: int) -> float:
    """Bonferroni-corrected two-sided p-value of the largest |t| with n − 1 degrees of freedom."""
    from scipy.special import stdtr

    return min(1.0, 2 * float(stdtr(n - 1, -float(t.abs().max()))) * t.numel())


def _correlated(a: Tensor, b: Tensor | None) -> str | None:
    """A reason when columns of a are correlated with each other (b is None) or with columns of b.

    Correlations are between ranks: their scatter is known whatever the law, while heavy tails coincide by chance.
    """
    n = len(a)
    u, v = _ranked(a), _ranked(a if b is None else b)
    r = (u.T @ v).clamp(-1, 1)
    if b is None:
        r.fill_diagonal_(0)
    pairs = r.numel() - (len(r) if b is None else 0)
    if pairs == 0:
        return None
    largest = float(r.abs().max())
    t = torch.tensor(largest * math.sqrt((n - 2) / max(1 - largest**2, 1e-12)))
    p = _tail(t, n - 1) * pairs / (2 if b is None else 1)
    if p < FALSE_ALARM:
        return f"largest rank correlation {largest:.2f} over {n} draws"
    mean_square = float(r.square().sum()) / pairs * (n - 1)
    # a mean of squared correlations scatters by about √(2/pairs) around 1
    if b is None and mean_square > 1 + EXCESS + 6 * math.sqrt(4 / pairs):
        return f"mean squared correlation {mean_square:.2f} times that of independent weights"
    return None


def _ranked(x: Tensor) -> Tensor:
    """Columns replaced by their centred ranks, of unit length."""
    ranks = x.argsort(0).argsort(0).double()
    return torch.nn.functional.normalize(ranks - ranks.mean(0), dim=0)
