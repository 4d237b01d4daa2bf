"""The initialisation law of every parameter and buffer of a module.

First the initialisation program is read (`program`): exact, and on the meta device, so that no weight is drawn. A
tensor that it does not explain is drawn afresh a few dozen times when its law is asked for, and passes the tests of
`netgrain.families.weight_law` or is refused with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from netgrain.families.initialisation_draws import CannotRead, Draws, draw, refusal
from netgrain.families.initialisation_program import watch
from netgrain.families.initialisation_records import FAR, NEVER_SET, Record
from netgrain.families.members import Family
from netgrain.families.weight_law import read_law
from netgrain.runtime.randomness import derived_seed

__all__ = ["CannotRead", "Initialisation", "TensorLaw"]

DRAWS, DRAWS_LARGE = 64, 24  # fresh members that unexplained laws are read from; the second above a million parameters
SAMPLE = 4096


@dataclass(frozen=True, eq=False)
class TensorLaw:
    """The law of one entry; entries are uncorrelated, identically distributed, independent of all other tensors.

    >>> law = TensorLaw(mean=0.0, variance=1 / 3, kind="uniform")
    >>> law.text
    'uniform in ±1'
    >>> x, w = law.quadrature()
    >>> round(float((w * x.relu()).sum()), 12)  # ½ ∫₀¹ x dx
    0.25
    """

    mean: float
    variance: float
    kind: str  # "constant", "uniform", "normal", "truncated" (a normal law cut off) or "drawn"
    error: float = 0.0  # relative standard error of the variance (0: known exactly)
    sample: Tensor | None = None  # of a "drawn" law: pooled draws, float64, scaled to the mean and variance
    cut: tuple[float, float, float, float] | None = None  # of a "truncated" law: mean, sd before the cut; ends

    def quadrature(self, n: int = 48) -> tuple[Tensor, Tensor]:
        """Nodes and weights of E[f(entry)] = Σ w·f(x), float64; about n of them, f may have a kink at zero."""
        if self.kind == "drawn":
            assert self.sample is not None
            return self.sample, torch.full_like(self.sample, 1 / len(self.sample))
        if self.kind == "constant":
            return torch.tensor([self.mean], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        if self.kind == "uniform":
            half = math.sqrt(3 * self.variance)
            return _pieces(self.mean - half, self.mean + half, n, normal=None)
        mean, sd, low, high = self.cut or (self.mean, math.sqrt(self.variance), -math.inf, math.inf)
        return _pieces(max(low, mean - FAR * sd), min(high, mean + FAR * sd), n, normal=(mean, sd))

    @property
    def text(self) -> str:
        sd = math.sqrt(self.variance)
        if self.kind == "constant":
            return f"constant {self.mean:.4g}"
        if self.kind == "uniform":
            half = math.sqrt(3) * sd
            return f"uniform in {_interval(self.mean - half, self.mean + half)}"
        if self.kind == "drawn":
            return f"drawn: variance {self.variance:.4g} ± {self.variance * self.error:.1g}"
        mean, sd, low, high = self.cut or (self.mean, sd, -math.inf, math.inf)
        centre = "" if mean == 0 else f"mean {mean:.4g}, "
        return f"normal, {centre}sd {sd:.4g}" + (f", cut to {_interval(low, high)}" if self.cut else "")


def _interval(low: float, high: float) -> str:
    centred = abs(low + high) <= 1e-9 * (high - low)
    return f"±{high:.4g}" if centred else f"{low:.4g} to {high:.4g}"


@lru_cache(maxsize=32)
def _legendre(n: int) -> tuple[Tensor, Tensor]:
    x, w = np.polynomial.legendre.leggauss(n)
    return torch.from_numpy(x), torch.from_numpy(w)


def _pieces(low: float, high: float, n: int, normal: tuple[float, float] | None) -> tuple[Tensor, Tensor]:
    """Gauss–Legendre pieces between the ends, zero, and the mean of a normal density; weights of sum one."""
    inner = {0.0} if normal is None else {0.0, normal[0]}
    ends = [low, *sorted(p for p in inner if low < p < high), high]
    x, w = _legendre(math.ceil(n / (len(ends) - 1)))
    nodes = torch.cat([(a + b) / 2 + (b - a) / 2 * x for a, b in pairwise(ends)])
    weights = torch.cat([(b - a) / 2 * w for a, b in pairwise(ends)])
    if normal is not None:
        weights = weights * torch.exp(-((nodes - normal[0]) ** 2) / (2 * normal[1] ** 2))
    return nodes, weights / weights.sum()


class Initialisation:
    """Laws of all parameters and buffers of the family of modules that `make` returns.

    >>> laws = Initialisation(lambda: nn.Linear(64, 10))
    >>> laws.of("weight").text, laws.on_meta
    ('uniform in ±0.125', True)
    """

    model: nn.Module  # one module of the family, in eval mode and without gradients; its tensors may be on meta
    on_meta: bool
    tied: dict[str, str]  # further names of a tensor → its first name

    def __init__(self, make: Family, *, seed: int = 0) -> None:
        self._make, self._seed = make, seed
        self.model, program = watch(make, seed)
        named = [
            *self.model.named_parameters(remove_duplicate=False),
            *self.model.named_buffers(remove_duplicate=False),
        ]
        self.tied = _tied(named)
        self._tensors = {name: t for name, t in named if name not in self.tied}
        self.on_meta = any(t.is_meta for t in self._tensors.values())
        self._lazy = {
            n for n, t in self._tensors.items() if isinstance(t, UninitializedParameter | UninitializedBuffer)
        }
        self._records = {
            name: Record("unknown") if program is None else program.of(t)
            for name, t in self._tensors.items()
            if name not in self._lazy
        }
        self._found: dict[str, TensorLaw] = {}
        self._draws: Draws | None = None

    def of(self, name: str) -> TensorLaw:
        """The law of one entry of a parameter or buffer, by its dotted name; raises CannotRead."""
        name = self.tied.get(name, name)
        if name not in self._found:
            self._found[name] = self._read(name)
        return self._found[name]

    def _read(self, name: str) -> TensorLaw:
        if name not in self._tensors:
            raise CannotRead(f"'{name}': the module has no parameter or buffer of this name{self._hint(name)}")
        if name in self._lazy:
            raise CannotRead(f"'{name}': it has no shape before the first forward pass, so no law (a lazy module)")
        if not _has_numbers(self._tensors[name]):
            raise CannotRead(f"'{name}': it has no entries, or complex ones")
        record = self._records[name]
        for other, theirs in self._records.items():
            if other != name and record.sources & theirs.sources:
                raise CannotRead(f"'{name}': shares its random numbers with '{other}'")
        if record.reason == NEVER_SET:
            raise CannotRead(f"'{name}': it is never initialised")
        law = _known(record) if record.base != "unknown" else self._drawn(name)
        if not math.isfinite(law.mean) or not math.isfinite(law.variance):
            raise CannotRead(f"'{name}': its entries are not finite")
        return law

    def _hint(self, name: str) -> str:
        owner, _, leaf = name.rpartition(".")
        prefix = f"{owner}.parametrizations.{leaf}." if owner else f"parametrizations.{leaf}."
        sources = [n for n in self._tensors if n.startswith(prefix)]
        return f"; it is computed from {' and '.join(map(repr, sources))}" if sources else ""

    def _drawn(self, name: str) -> TensorLaw:
        if self._lazy:
            raise CannotRead(f"'{name}': its law needs fresh draws, and '{min(self._lazy)}' has no shape yet")
        if self._draws is None:
            large = sum(p.numel() for p in self.model.parameters()) >= 1_000_000
            unknown = [n for n, r in self._records.items() if r.base == "unknown" and _has_numbers(self._tensors[n])]
            self._draws = draw(self._make, unknown, DRAWS_LARGE if large else DRAWS, derived_seed(self._seed, "laws"))
        drawn, others = self._draws.of(name), self._draws.others(name)
        if (value := drawn.constant) is not None:
            return TensorLaw(value, 0.0, "constant")
        seed = derived_seed(self._seed, "law", name)
        law = refusal(drawn) or read_law(drawn.entries, others, max(math.prod(drawn.shape[1:]), 1), seed=seed)
        if isinstance(law, str):
            raise CannotRead(f"'{name}': {law}")
        if law.error == 0:
            return TensorLaw(0.0, law.variance, "uniform")
        pooled = drawn.entries.flatten().double()
        chosen = pooled[torch.randperm(len(pooled), generator=torch.Generator().manual_seed(seed))[:SAMPLE]]
        sample = (chosen - chosen.mean()) * math.sqrt(law.variance / float(chosen.var(correction=0)))
        return TensorLaw(0.0, law.variance, "drawn", error=law.error, sample=sample)


def _has_numbers(t: Tensor) -> bool:
    return t.numel() > 0 and not t.is_complex()


def _tied(named: list[tuple[str, Tensor]]) -> dict[str, str]:
    """Names of one and the same tensor: one object, or one place in memory seen in one way."""
    first: dict[object, str] = {}
    tied = {}
    for name, t in named:
        lazy = isinstance(t, UninitializedParameter | UninitializedBuffer)
        place = id(t) if lazy or t.layout is not torch.strided else _place(t)
        if place in first:
            tied[name] = first[place]
        else:
            first[place] = name
    return tied


def _place(t: Tensor) -> object:
    if t.numel() == 0:
        return id(t)
    return t.untyped_storage()._cdata, t.storage_offset(), tuple(t.shape), t.stride(), t.dtype


def _known(record: Record) -> TensorLaw:
    """The law of shift + scale·Z."""
    shift, scale = record.shift, abs(record.scale)
    if record.base == "constant":
        return TensorLaw(shift, 0.0, "constant")
    if record.base == "uniform":
        return TensorLaw(shift, scale**2 / 3, "uniform")
    if record.base == "normal":
        return TensorLaw(shift, scale**2, "normal")
    a, b = record.bounds if record.scale > 0 else (-record.bounds[1], -record.bounds[0])
    x, w = _pieces(max(a, -FAR), min(b, FAR), 96, normal=(0.0, 1.0))
    mean = 0.0 if a == -b else float((w * x).sum())
    variance = float((w * (x - mean) ** 2).sum())
    ends = (shift + scale * a, shift + scale * b)
    return TensorLaw(shift + scale * mean, scale**2 * variance, "truncated", cut=(shift, scale, *ends))
