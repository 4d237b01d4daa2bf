"""How the score grows with the number of samples: leave-one-out of subsets up to n, and power laws beyond.

Two laws are fitted to the error e = 1 − score: e = a + b N^−c with a ≥ 0, and e = b N^−c. Neither was right on every
task that was measured, so a forecast is their mean, and half of their difference is part of its error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.learning.decompositions import MOST_DENSE, Decomposition, Features, part_of
from netgrain.learning.leave_one_out import at_whole_frequencies, leave_one_out
from netgrain.learning.targets import Targets, score_of
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for

POINTS = 5
SMALLEST_SHARE = 8  # the smallest subset is an eighth of the samples
SMALLEST = 10  # samples in a subset, at least
EXPONENTS = tuple(0.05 * j for j in range(1, 41))
DRAWS = 200  # of the points within their errors
GAIN = 0.01  # doubling the samples adds less than that: more of them no longer help
FARTHEST = 1000  # times n, beyond which nothing is said


@dataclass(frozen=True, eq=False)
class PowerLaws:
    """e(N) = floor + slope·(N/n)^−exponent, several at once.

    Attributes
    ----------
    floors, slopes, exponents : Tensor of shape (laws,)
        Not negative.
    samples : int
        The n of the formula.
    """

    floors: Tensor
    slopes: Tensor
    exponents: Tensor
    samples: int

    def at(self, n: float) -> Tensor:
        """Errors at n samples, shape (laws,)."""
        return self.floors + self.slopes * (n / self.samples) ** -self.exponents


def fitted(sizes: Tensor, errors: Tensor, weights: Tensor, exponents: tuple[float, ...], *, floor: bool) -> PowerLaws:
    """Power laws of least weighted squares, one for each row of errors.

    Parameters
    ----------
    sizes : Tensor of shape (points,)
        Numbers of samples; the last is the reference n.
    errors : Tensor of shape (laws, points)
        What is fitted.
    weights : Tensor of shape (points,)
        Inverse variances.
    exponents : tuple of float
        Exponents to try.
    floor : bool
        Whether a constant is part of the law.

    Returns
    -------
    PowerLaws
        Floors and slopes are not negative.

    Examples
    --------
    Points on 0.1 + 0.2·(N/400)^−½:

    >>> sizes = torch.tensor([100.0, 200.0, 400.0], dtype=torch.float64)
    >>> laws = fitted(sizes, 0.1 + 0.2 * (sizes[None] / 400) ** -0.5, torch.ones(3).double(), (0.5,), floor=True)
    >>> round(float(laws.floors[0]), 6), round(float(laws.slopes[0]), 6)
    (0.1, 0.2)
    """
    sizes, errors, weights = sizes.double(), errors.double(), (weights / weights.sum()).double()
    c = torch.tensor(exponents, dtype=torch.float64)
    f = (sizes[None] / sizes[-1]) ** -c[:, None]  # (exponents, points)
    mean_f, mean_e = (f * weights).sum(1), (errors * weights).sum(1)
    ff, ef = (f.square() * weights).sum(1), (errors * weights) @ f.T  # (exponents,), (laws, exponents)
    alone = (ef / ff).clamp(min=0.0)  # the slope without a floor
    candidates = [(torch.zeros_like(alone), alone)]
    if floor:
        variance = (ff - mean_f.square()).clamp(min=1e-300)
        slope = (ef - mean_e[:, None] * mean_f) / variance
        level = mean_e[:, None] - slope * mean_f
        good = (slope >= 0) & (level >= 0)
        both = (torch.where(good, level, 0.0), torch.where(good, slope, alone))
        candidates += [both, (mean_e.clamp(min=0.0)[:, None].expand_as(alone), torch.zeros_like(alone))]
    floors = torch.stack([a for a, _ in candidates], -1)  # (laws, exponents, candidates)
    slopes = torch.stack([b for _, b in candidates], -1)
    left = errors[:, None, None, :] - floors[..., None] - slopes[..., None] * f[None, :, None, :]
    loss = (left.square() * weights).sum(-1).flatten(1)
    best = loss.argmin(1, keepdim=True)
    taken = [t.flatten(1).gather(1, best)[:, 0] for t in (floors, slopes, c[None, :, None].expand_as(floors))]
    return PowerLaws(taken[0], taken[1], taken[2], int(sizes[-1]))


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve:
    """Leave-one-out scores of subsets, extrapolated by power laws.

    Attributes
    ----------
    measure : str
        Name of the score.
    sizes : tuple of int
        Numbers of samples, from an eighth to all.
    scores : tuple of Estimate
        Score at each size, with its sampling error.
    seed : int
        Seed of the subsets.
    """

    measure: str
    sizes: tuple[int, ...]
    scores: tuple[Estimate, ...]
    seed: int

    def draws(self) -> Tensor:
        """Random draws of the errors 1 − score, within their standard errors.

        Returns
        -------
        Tensor of shape (draws + 1, points)
            The first row holds the measured values.
        """
        errors = 1 - torch.tensor([float(s) for s in self.scores], dtype=torch.float64)
        spread = torch.tensor([s.stderr for s in self.scores], dtype=torch.float64)
        generator = generator_for(self.seed, "learning curve within its errors")
        noise = torch.randn(DRAWS, len(errors), generator=generator, dtype=torch.float64)
        return torch.cat([errors[None], errors + noise * spread])

    def laws(self, exponents: tuple[float, ...] = EXPONENTS, *, floor: bool) -> PowerLaws:
        """Power laws of all draws.

        Parameters
        ----------
        exponents : tuple of float
            Exponents to try.
        floor : bool
            Whether a constant is part of the law.

        Returns
        -------
        PowerLaws
            The first law is that of the measured scores.
        """
        weights = torch.tensor([1 / s.stderr**2 for s in self.scores], dtype=torch.float64)
        return fitted(torch.tensor(self.sizes), self.draws(), weights, exponents, floor=floor)

    def at(self, n: int) -> Estimate:
        """Expected score with n samples.

        Parameters
        ----------
        n : int
            Number of samples, at least as many as the smallest subset.

        Returns
        -------
        Estimate
            Mean of two power laws; its error includes the errors of the points and half the difference between the
            laws.
        """
        if n < self.sizes[0]:
            raise NetgrainError(f"the curve begins at {self.sizes[0]} samples, found n={n}; pass a larger n.")
        both = torch.stack([self.laws(floor=floor).at(n) for floor in (True, False)])
        spread = float(both[:, 1:].mean(0).std())
        apart = float((both[0, 0] - both[1, 0]).abs()) / 2
        return Estimate(1 - float(both[:, 0].mean()), math.hypot(spread, apart), len(self.sizes))

    def enough(self) -> tuple[int, int, int | None] | None:
        """Number of samples beyond which doubling them adds less than one point.

        Returns
        -------
        tuple of int, or None
            (most likely, lower end, upper end), where the ends enclose two thirds of the draws. The upper end is None
            if it exceeds 1,000 times the number of samples; if the most likely number does, the result is None.
        """
        n = self.sizes[-1]
        grid = [self.sizes[0] * 2 ** (j / 4) for j in range(4 * math.ceil(math.log2(FARTHEST * n / self.sizes[0])) + 1)]
        laws = [self.laws(floor=floor) for floor in (True, False)]
        gains = torch.stack([torch.stack([law.at(N) - law.at(2 * N) for law in laws]).mean(0) for N in grid])
        reached = gains < GAIN
        first = torch.where(reached.any(0), reached.double().argmax(0), len(grid))
        ends = torch.quantile(first[1:].double(), torch.tensor([1 / 6, 5 / 6], dtype=torch.float64)).round().long()
        likely, low, high = int(first[0]), int(min(ends[0], first[0])), int(max(ends[1], first[0]))
        if likely == len(grid):
            return None
        return round(grid[likely]), round(grid[low]), None if high == len(grid) else round(grid[high])

    def __repr__(self) -> str:
        points = ", ".join(f"{n}: {s.with_error}" for n, s in zip(self.sizes, self.scores, strict=True))
        return f"LearningCurve({self.measure}; {points})"


def learning_curve(
    K: Tensor | Features,
    targets: Targets,
    *,
    groups: Tensor | None = None,
    whole: Estimate | None = None,
    seed: int = 0,
) -> LearningCurve:
    """Learning curve of a kernel, from an eighth of the samples to all.

    Parameters
    ----------
    K : Tensor of shape (samples, samples) or Features
        The kernel.
    targets : Targets
        The labels.
    groups : Tensor of shape (samples,), optional
        Samples with the same number are left out together.
    whole : Estimate, optional
        The score with all samples, if you have it already.
    seed : int, default 0
        Seed of the subsets; subsets of one size do not overlap.

    Returns
    -------
    LearningCurve
        Scores at five sizes in equal ratios.
    """
    n = len(K)
    smallest = min(max(SMALLEST, n // SMALLEST_SHARE), n)
    sizes = sorted({round(smallest * (n / smallest) ** (j / (POINTS - 1))) for j in range(POINTS)})
    order = torch.randperm(n, generator=generator_for(seed, "learning curve"))
    scores = []
    for size in sizes:
        if size == n and whole is not None:
            scores.append(whole)
            continue
        count = n // size if n <= MOST_DENSE else max(1, min(n, MOST_DENSE) // size)  # fewer where each takes long
        parts = [order[i * size : (i + 1) * size] for i in range(count)]
        found = [_subset_score(K, targets, groups, rows) for rows in parts]
        mean = math.fsum(found) / len(found)
        error = math.sqrt(math.fsum(f.stderr**2 for f in found)) / len(found)
        scores.append(Estimate(mean, error, len(found) * size))
    return LearningCurve(targets.measure, tuple(sizes), tuple(scores), seed)


def _subset_score(K: Tensor | Features, targets: Targets, groups: Tensor | None, rows: Tensor) -> Estimate:
    inside, some = targets.of(rows), None if groups is None else groups[rows]
    return loo_score(part_of(K, rows), inside, some)


def loo_score(K: Tensor | Features | Decomposition, targets: Targets, groups: Tensor | None = None) -> Estimate:
    """Score of leave-one-out predictions."""
    predictions = leave_one_out(K, targets.columns, groups=groups).predictions
    return score_of(targets, scored_predictions(predictions, targets, groups)).value


def scored_predictions(predictions: Tensor, targets: Targets, groups: Tensor | None) -> Tensor:
    """What is scored: classes at the frequencies of all samples, numbers as predicted."""
    return at_whole_frequencies(predictions, targets.columns, groups) if targets.classes else predictions
