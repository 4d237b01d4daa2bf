"""How well predictions agree with what networks reached: across tasks, within them, in level, and as a choice.

Arrays have shape (tasks, networks); NaN where a network was not trained on a task, or a predictor has no number.
Resampling is over tasks: networks of one task share its samples and are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netgrain.geometry.estimate import Estimate
from netgrain.learning.rankings import margin

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
FEWEST = 3  # pairs of a rank correlation
BEYOND = 1.645  # standard errors of a difference that counts: one-sided, 95 %
UNDERRATED = 0.10  # a prediction lower by more than that is an underrating
DRAWS = 400  # of the bootstrap


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's, with ties at their mean rank, over entries where both are numbers; NaN if one does not vary.

    >>> rank_correlation(np.array([1.0, 2, 3, 4]), np.array([10.0, 20, 40, 30]))
    0.8
    """
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < FEWEST:
        return math.nan
    x, y = _ranks(a[both]), _ranks(b[both])
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / size if size > 0 else math.nan


def _ranks(values: Array) -> Array:
    """Ranks around 0."""
    above = values[:, None] > values
    equal = values[:, None] == values
    ranks = above.sum(1) + (equal.sum(1) - 1) / 2
    around: Array = ranks - ranks.mean()
    return around


def across(reached: Array, predicted: Array) -> list[float]:
    """Rank correlation across tasks, for each network."""
    return [rank_correlation(reached[:, j], predicted[:, j]) for j in range(reached.shape[1])]


def within(reached: Array, predicted: Array) -> list[float]:
    """Rank correlation across networks, for each task; NaN for tasks of fewer than three networks."""
    return [rank_correlation(r, p) for r, p in zip(reached, predicted, strict=True)]


def mean_of(values: Sequence[float]) -> float:
    """Mean of those that are numbers."""
    found = [v for v in values if math.isfinite(v)]
    return math.fsum(found) / len(found) if found else math.nan


def corrected(reached: Array, predicted: Array) -> Array:
    """Predictions after one line for all networks, fitted by least squares without the task it is used for."""
    out = np.full(reached.shape, np.nan)
    for t in range(len(reached)):
        others = np.arange(len(reached)) != t
        slope, start = _line(predicted[others].ravel(), reached[others].ravel())
        out[t] = start + slope * predicted[t]
    return out


def _line(x: Array, y: Array) -> tuple[float, float]:
    both = np.isfinite(x) & np.isfinite(y)
    if both.sum() < 2:
        return math.nan, math.nan
    x, y = x[both], y[both]
    dx = x - x.mean()
    spread = float(dx @ dx)
    slope = float(dx @ y) / spread if spread > 0 else 0.0
    return slope, float(y.mean()) - slope * float(x.mean())


def errors(reached: Array, predicted: Array) -> Array:
    """|predicted − reached|, NaN where one is missing."""
    found: Array = np.abs(predicted - reached)
    return found


def quantile(values: Array, share: float) -> float:
    """Quantile of the numbers among them."""
    found = values[np.isfinite(values)]
    return float(np.quantile(found, share)) if found.size else math.nan


def not_worse(right: Sequence[NDArray[np.bool_]]) -> list[bool]:
    """Which networks of a task are not significantly worse than its best one.

    right: for each network which tests every seed gets right, (seeds, tests). The difference from the best network is
    taken test by test, of means over seeds; its variance is that over tests and that of both means over seeds.
    """
    means = [r.mean(0) for r in right]  # (tests,) each
    best = int(np.argmax([m.mean() for m in means]))
    out = []
    for mean, one in zip(means, right, strict=True):
        difference = means[best] - mean
        variance = float(difference.var(ddof=1)) / len(difference) + seed_variance(one) + seed_variance(right[best])
        out.append(bool(difference.mean() <= BEYOND * math.sqrt(variance)))
    return out


def seed_variance(right: NDArray[np.bool_]) -> float:
    """Variance of the mean accuracy over seeds, of right (seeds, tests); 0 for one seed."""
    accuracies = right.mean(1)
    return float(accuracies.var(ddof=1)) / len(accuracies) if len(accuracies) > 1 else 0.0


def picks(reached: Array, predicted: Array) -> list[int | None]:
    """The network with the largest prediction in each task of three or more; None where all predictions are equal."""
    out: list[int | None] = []
    for r, p in zip(reached, predicted, strict=True):
        both = np.isfinite(r) & np.isfinite(p)
        varied = both.sum() >= FEWEST and np.ptp(p[both]) > 0
        out.append(int(np.argmax(np.where(both, p, -np.inf))) if varied else None)
    return out


def points_lost(reached: Array, predicted: Array) -> list[float]:
    """Best accuracy of a task minus that of the network that was picked; NaN without a pick."""
    chosen = picks(reached, predicted)
    return [
        math.nan if pick is None else float(np.nanmax(r) - r[pick]) for r, pick in zip(reached, chosen, strict=True)
    ]


def good_picks(reached: Array, predicted: Array, good: Array) -> list[float]:
    """1 where the network that was picked is not significantly worse than the best, else 0; NaN without a pick.

    good: 1 for networks that are not, (tasks, networks).
    """
    chosen = picks(reached, predicted)
    return [math.nan if pick is None else float(g[pick]) for g, pick in zip(good, chosen, strict=True)]


def alike(predicted: Array, samples: Sequence[int]) -> Array:
    """1 for networks that a ranking by these predictions cannot tell apart from its first, else 0; NaN without one.

    samples: behind the predictions of each task.
    """
    out = np.full(predicted.shape, np.nan)
    for t, (row, n) in enumerate(zip(predicted, samples, strict=True)):
        there = np.flatnonzero(np.isfinite(row))
        if len(there) < FEWEST:
            continue
        errors = np.sqrt(row[there] * (1 - row[there]) / n)
        best = int(np.argmax(row[there]))
        margins = [margin(float(errors[best]), float(e)) for e in errors]
        out[t, there] = row[there][best] - row[there] <= margins
    return out


def warned(reached: Array, predicted: Array, warnings: Array) -> tuple[float, float]:
    """Share of pairs underrated by more than 10 points that carry a warning, and share of the others."""
    known = np.isfinite(reached) & np.isfinite(predicted) & np.isfinite(warnings)
    low = known & (reached - predicted > UNDERRATED)
    rest = known & ~low
    return _share(warnings[low]), _share(warnings[rest])


def _share(values: Array) -> float:
    return float(values.mean()) if values.size else math.nan


def fixed_ranking(reached: Array) -> Array:
    """For each task the mean of every network over the other tasks with the same networks."""
    out = np.full(reached.shape, np.nan)
    have = np.isfinite(reached)
    for t in range(len(reached)):
        alike = [s for s in range(len(reached)) if s != t and bool((have[s] == have[t]).all())]
        if alike:
            out[t, have[t]] = reached[alike][:, have[t]].mean(0)
    return out


@dataclass(frozen=True)
class Interval:
    """A statistic with its bootstrap over tasks."""

    value: float
    stderr: float
    low: float
    high: float
    tasks: int

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.value, self.stderr, self.tasks)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def bootstrap(
    statistic: Callable[[Rows], float], tasks: Sequence[int] | Rows, *, draws: int = DRAWS, seed: int = 0
) -> Interval:
    """A statistic of some tasks (their indices), with standard error and 95 % interval from resampled tasks.

    tasks: those that have something to say; fewer than two have no error.
    """
    rows = np.asarray(tasks, dtype=np.int64)
    n = len(rows)
    value = statistic(rows) if n else math.nan
    if n < 2:
        return Interval(value, math.nan, math.nan, math.nan, n)
    generator = np.random.default_rng(seed)
    drawn = np.array([statistic(rows[generator.integers(0, n, n)]) for _ in range(draws)])
    drawn = drawn[np.isfinite(drawn)]
    if drawn.size < 2:
        return Interval(value, math.nan, math.nan, math.nan, n)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(drawn.std(ddof=1)), float(low), float(high), n)


def across_interval(reached: Array, predicted: Array) -> Interval:
    """Mean over networks of the rank correlation across tasks."""
    return bootstrap(lambda rows: mean_of(across(reached[rows], predicted[rows])), _with_pairs(reached, predicted))


def difference_across(reached: Array, one: Array, other: Array) -> Interval:
    """The same of one predictor minus that of another."""

    def difference(rows: Rows) -> float:
        return mean_of(across(reached[rows], one[rows])) - mean_of(across(reached[rows], other[rows]))

    return bootstrap(difference, _with_pairs(reached, one))


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean of a number of each task, over tasks that have one."""
    every = np.array(values, dtype=np.float64)
    return bootstrap(lambda rows: float(every[rows].mean()), np.flatnonzero(np.isfinite(every)))


def share_interval(values: Sequence[float]) -> Interval:
    """Share of tasks with a 1 among those with a 0 or a 1; its error is never that of a certainty."""
    return _uncertain(mean_interval(values))


def quantile_interval(values: Array, share: float) -> Interval:
    """Quantile over all pairs of the tasks."""
    return bootstrap(lambda rows: quantile(values[rows], share), np.flatnonzero(np.isfinite(values).any(1)))


def warned_intervals(reached: Array, predicted: Array, warnings: Array) -> tuple[Interval, Interval]:
    """Shares of `warned`, over tasks that have such pairs."""
    found = []
    for place in (0, 1):

        def share(rows: Rows, place: int = place) -> float:
            return warned(reached[rows], predicted[rows], warnings[rows])[place]

        having = [t for t in range(len(reached)) if math.isfinite(share(np.array([t])))]
        found.append(_uncertain(bootstrap(share, having)))
    return found[0], found[1]


def _with_pairs(reached: Array, predicted: Array) -> Rows:
    return np.flatnonzero((np.isfinite(reached) & np.isfinite(predicted)).any(1))


def _uncertain(found: Interval) -> Interval:
    """The error of a share is at least that of one more success and one more failure."""
    if not found.tasks or not math.isfinite(found.value):
        return found
    p = (found.value * found.tasks + 1) / (found.tasks + 2)
    return replace(found, stderr=max(found.stderr, math.sqrt(p * (1 - p) / found.tasks)))


def as_array(rows: Sequence[Sequence[Any]]) -> Array:
    """(tasks, networks) with NaN for None."""
    return np.array([[math.nan if v is None else float(v) for v in row] for row in rows], dtype=np.float64)
