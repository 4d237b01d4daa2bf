"""A quantity along a sweep: one row per seed, compared within each seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netgrain.experiments.claims import Claim, claim, mean
from netgrain.geometry.estimate import Estimate

Rows = list[list[float]]  # (seeds, values)


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """Numbers of trainings at every value of a sweep and every seed; runs that missed their target loss are flagged.

    Seeds differ in level more than many effects are large, so `rho` is paired: Spearman's rank correlation of value
    and number within each seed, averaged. Runs that diverged or stopped before the target loss was met are left out of
    it (`missed`): networks at different losses cannot be compared.
    """

    values: tuple[float, ...]
    numbers: Mapping[str, Rows]  # measure → (seeds, values); NaN where a training diverged
    good: list[list[bool]] = field(default_factory=list)  # finished, and at the target loss where there is one

    @property
    def seeds(self) -> int:
        return len(self.good)

    @property
    def missed(self) -> int:
        """Runs that diverged or did not reach the target loss."""
        return sum(not g for row in self.good for g in row)

    def per_seed(self, measure: str = "complexity") -> list[float]:
        """Spearman's rho of value and measure in each seed; NaN where fewer than three runs are left."""
        return [
            spearman(
                [v for v, g in zip(self.values, good, strict=True) if g],
                [r for r, g in zip(row, good, strict=True) if g],
            )
            for row, good in zip(self.numbers[measure], self.good, strict=True)
        ]

    def rho(self, measure: str = "complexity") -> Estimate:
        """Mean of the seeds' rho with its standard error; `interval()` is the 95 % interval over seeds."""
        return mean([r for r in self.per_seed(measure) if not math.isnan(r)])

    def pooled(self, measure: str = "complexity") -> Estimate:
        """Spearman's rho of all runs together, with its standard error by leaving out one seed at a time."""

        def of(seeds: Sequence[int]) -> float:
            pairs = [
                (v, r)
                for s in seeds
                for v, r, g in zip(self.values, self.numbers[measure][s], self.good[s], strict=True)
                if g
            ]
            return spearman([v for v, _ in pairs], [r for _, r in pairs])

        n = self.seeds
        whole = of(range(n))
        if n < 2:
            return Estimate(whole, math.nan, n)
        left = [of([s for s in range(n) if s != out]) for out in range(n)]
        centre = sum(left) / n
        return Estimate(whole, math.sqrt((n - 1) / n * sum((x - centre) ** 2 for x in left)), n)

    def means(self, measure: str = "complexity") -> list[Estimate]:
        """Mean over seeds at each value, of the good runs."""
        rows = self.numbers[measure]
        return [mean([rows[s][j] for s in range(self.seeds) if self.good[s][j]]) for j in range(len(self.values))]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"values": list(self.values), "numbers": dict(self.numbers), "good": self.good}

    def __repr__(self) -> str:
        along = " → ".join(f"{m.value:.3g}" for m in self.means())
        missed = f", {self.missed} runs missed" if self.missed else ""
        return f"Curve({len(self.values)} values × {self.seeds} seeds, complexity {along}, rho {self.rho()!r}{missed})"


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Rank correlation, ties at their mean rank; NaN for fewer than three pairs or no variation.

    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan
    a, b = _ranks(x), _ranks(y)
    centre = (len(x) - 1) / 2
    top = sum((p - centre) * (q - centre) for p, q in zip(a, b, strict=True))
    return top / math.sqrt(sum((p - centre) ** 2 for p in a) * sum((q - centre) ** 2 for q in b))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def monotone(
    curve: Curve,
    name: str,
    sign: int,
    *,
    measure: str = "complexity",
    what: str = "geometric complexity",
    least: float = 0.8,
    paper: str = "",
) -> Claim:
    """The claim that a measure rises (sign 1) or falls (sign −1) along the sweep, seed by seed."""
    bounds = {"low": least} if sign > 0 else {"high": -least}
    side = f"at least {least}" if sign > 0 else f"at most −{least}"
    return claim(
        name,
        f"Spearman's rho of setting and {what} within each seed is {side} on average",
        curve.rho(measure),
        paper=paper,
        note=_flag(curve),
        **bounds,
    )


def pooled(curve: Curve, name: str, sign: int, *, least: float = 0.95, paper: str = "") -> Claim:
    """The claim that all runs together, seeds mixed, are in order."""
    bounds = {"low": least} if sign > 0 else {"high": -least}
    side = f"at least {least}" if sign > 0 else f"at most −{least}"
    return claim(
        name,
        f"Spearman's rho of setting and geometric complexity over all runs is {side}",
        curve.pooled(),
        paper=paper,
        note=_flag(curve),
        **bounds,
    )


def _flag(curve: Curve) -> str:
    total = curve.seeds * len(curve.values)
    return f"{curve.missed} of {total} runs missed the target loss and are left out" if curve.missed else ""
