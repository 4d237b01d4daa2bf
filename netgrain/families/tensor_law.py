"""The law of one entry of a weight tensor: moments, words, and expectations under it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from netgrain.families.initialisation_records import FAR, Record

LawKind = Literal["constant", "uniform", "normal", "truncated", "drawn"]
SKEWED = 5.0  # standard errors


@dataclass(frozen=True, eq=False)
class TensorLaw:
    """Law of one entry of a parameter or buffer.

    Entries are uncorrelated, identically distributed and independent of all other tensors.

    Parameters
    ----------
    mean, variance : float
        Of every entry.
    kind : {"constant", "uniform", "normal", "truncated", "drawn"}
        A truncated law is a normal one cut off; a drawn one is known from fresh draws alone.
    error : float, default 0
        Relative standard error of the variance; 0 where it is known exactly.
    sample : Tensor of shape (entries,), optional
        Pooled draws of a drawn law in float64, scaled to its mean and variance.
    cut : tuple of 4 floats, optional
        Of a truncated law: mean and standard deviation before the cut, and both ends.
    skewness : float, default 0
        Of a drawn law: the mean of cubes, in standard errors.
    read_from : {"program", "draws"}, default "program"
        Whether ``make()`` was watched while it drew the entries, or fresh draws were looked at.

    Examples
    --------
    >>> law = TensorLaw(mean=0.0, variance=1 / 3, kind="uniform")
    >>> law.text
    'uniform in ±1'
    >>> x, w = law.quadrature()
    >>> round(float((w * x.relu()).sum()), 12)  # ½ ∫₀¹ x dx
    0.25
    """

    mean: float
    variance: float
    kind: LawKind
    error: float = 0.0
    sample: Tensor | None = None
    cut: tuple[float, float, float, float] | None = None
    skewness: float = 0.0
    read_from: Literal["program", "draws"] = "program"

    def quadrature(self, n: int = 48) -> tuple[Tensor, Tensor]:
        """Nodes and weights of E[f(entry)] = Σ w·f(x), float64; about n of them, f may have a kink at zero."""
        if self.kind == "drawn":
            assert self.sample is not None
            return self.sample, torch.full_like(self.sample, 1 / len(self.sample))
        if self.kind == "constant":
            return torch.tensor([self.mean], dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        if self.kind == "uniform":
            half = math.sqrt(3 * self.variance)
            return normal_pieces(self.mean - half, self.mean + half, n, normal=None)
        mean, sd, low, high = self.cut or (self.mean, math.sqrt(self.variance), -math.inf, math.inf)
        return normal_pieces(max(low, mean - FAR * sd), min(high, mean + FAR * sd), n, normal=(mean, sd))

    def affine(self, scale: float, shift: float = 0.0) -> TensorLaw:
        """The law of scale · entry + shift."""
        if scale == 0:
            return TensorLaw(shift, 0.0, "constant", read_from=self.read_from)
        cut = None
        if self.cut is not None:
            mean, sd, *ends = (scale * z for z in self.cut)
            low, high = sorted(z + shift for z in ends)
            cut = mean + shift, abs(sd), low, high
        return replace(
            self,
            mean=scale * self.mean + shift,
            variance=scale**2 * self.variance,
            sample=None if self.sample is None else scale * self.sample + shift,
            cut=cut,
            skewness=math.copysign(1.0, scale) * self.skewness,
        )

    @property
    def symmetric(self) -> bool:
        """Whether an entry and its negative have the same law."""
        return self.mean == 0 and abs(self.skewness) <= SKEWED

    @property
    def text(self) -> str:
        """The law in words, as in "uniform in ±0.125"."""
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


def normal_pieces(low: float, high: float, n: int, normal: tuple[float, float] | None) -> tuple[Tensor, Tensor]:
    """Gauss–Legendre pieces between the ends, zero, and the mean of a normal density; weights of sum one."""
    inner = {0.0} if normal is None else {0.0, normal[0]}
    ends = [low, *sorted(p for p in inner if low < p < high), high]
    x, w = _legendre(math.ceil(n / (len(ends) - 1)))
    nodes = torch.cat([(a + b) / 2 + (b - a) / 2 * x for a, b in pairwise(ends)])
    weights = torch.cat([(b - a) / 2 * w for a, b in pairwise(ends)])
    if normal is not None:
        weights = weights * torch.exp(-((nodes - normal[0]) ** 2) / (2 * normal[1] ** 2))
    return nodes, weights / weights.sum()


def law_of_record(record: Record) -> TensorLaw:
    """The law of shift + scale·Z."""
    shift, scale = record.shift, abs(record.scale)
    if record.base == "constant":
        return TensorLaw(shift, 0.0, "constant")
    if record.base == "uniform":
        return TensorLaw(shift, scale**2 / 3, "uniform")
    if record.base == "normal":
        return TensorLaw(shift, scale**2, "normal")
    a, b = record.bounds if record.scale > 0 else (-record.bounds[1], -record.bounds[0])
    x, w = normal_pieces(max(a, -FAR), min(b, FAR), 96, normal=(0.0, 1.0))
    mean = 0.0 if a == -b else float((w * x).sum())
    variance = float((w * (x - mean) ** 2).sum())
    ends = (shift + scale * a, shift + scale * b)
    return TensorLaw(shift + scale * mean, scale**2 * variance, "truncated", cut=(shift, scale, *ends))
