"""Tasks and networks in pairs: what was predicted for each, what each reached, and numbers that judge a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from netgrain.experiments.learnability import agreement
from netgrain.experiments.learnability.agreement import Array, Interval
from netgrain.experiments.learnability.predictors import OURS, SAYS, SCORES
from netgrain.experiments.learnability.tasks import Task

Right = NDArray[np.bool_]  # (seeds, tests)


@dataclass(frozen=True)
class Judgement:
    """A predictor in numbers, each with its bootstrap over tasks.

    Attributes
    ----------
    tasks : Interval
        Rank correlation across tasks, mean over networks.
    networks : Interval
        Rank correlation across networks within a task, mean over tasks.
    median, tail : Interval
        Median and 90 % quantile of the error in points, after one line fitted without the task.
    plain : Interval or None
        Median error in points as it is, of predictors that are accuracies.
    picked, lost : Interval
        Share of tasks whose pick is not significantly worse than the best; mean points lost.
    """

    tasks: Interval
    networks: Interval
    median: Interval
    tail: Interval
    plain: Interval | None
    picked: Interval
    lost: Interval


@dataclass(frozen=True, eq=False)
class Pairs:
    """Arrays over tasks and networks, NaN where there is no pair.

    Attributes
    ----------
    tasks : tuple of Task
        Rows.
    networks : tuple of str
        Columns.
    reached : array of shape (tasks, networks)
        Test accuracy, mean over seeds.
    right : dict of (int, int) to array of shape (seeds, tests)
        Which tests each seed gets right.
    train : array of shape (tasks, networks)
        Training accuracy, mean over seeds.
    predicted : dict of str to array of shape (tasks, networks)
        By predictor.
    warned : array of shape (tasks, networks)
        1 where our prediction warns that features must be learnt, else 0.
    """

    tasks: tuple[Task, ...]
    networks: tuple[str, ...]
    reached: Array
    right: dict[tuple[int, int], Right]
    train: Array
    predicted: dict[str, Array]
    warned: Array

    @cached_property
    def good(self) -> Array:
        """1 for networks that are not significantly worse than the best of their task, else 0."""
        out = np.full(self.reached.shape, np.nan)
        for t in range(len(self.tasks)):
            there = [j for j in range(len(self.networks)) if (t, j) in self.right]
            if there:
                out[t, there] = agreement.not_worse([self.right[t, j] for j in there])
        return out

    @cached_property
    def predictors(self) -> tuple[str, ...]:
        """Those with a number, in the order of tables."""
        return tuple(name for name in SAYS if np.isfinite(self.predicted[name]).any())

    @cached_property
    def judged(self) -> dict[str, Judgement]:
        """Every predictor in numbers."""
        return {name: self._judgement(name) for name in self.predictors}

    def of(self, name: str) -> Array:
        """Predictions where there is something to compare with."""
        return np.where(np.isfinite(self.reached), self.predicted[name], np.nan)

    def errors(self, name: str) -> Array:
        """Errors in points after the correction."""
        return 100 * agreement.errors(self.reached, agreement.corrected(self.reached, self.of(name)))

    def without_features(self) -> Pairs:
        """Pairs of tasks that were not named beforehand as tasks in which features must be learnt."""
        return self.only([t for t, task in enumerate(self.tasks) if not task.features])

    def only(self, rows: Sequence[int]) -> Pairs:
        """Pairs of some tasks."""
        kept = list(rows)
        return Pairs(
            tuple(self.tasks[t] for t in kept),
            self.networks,
            self.reached[kept],
            {(new, j): r for new, t in enumerate(kept) for (s, j), r in self.right.items() if s == t},
            self.train[kept],
            {name: values[kept] for name, values in self.predicted.items()},
            self.warned[kept],
        )

    def better_than(self, name: str, *, ours: str = OURS) -> Interval:
        """Our rank correlation across tasks minus that of another predictor, mean over networks."""
        return agreement.difference_across(self.reached, self.of(ours), self.of(name))

    def better_within(self, name: str, *, ours: str = OURS) -> Interval:
        """The same within tasks, over tasks in which both have an order."""
        a, b = (np.array(agreement.within(self.reached, self.of(n))) for n in (ours, name))
        return agreement.mean_interval((a - b).tolist())

    def _judgement(self, name: str) -> Judgement:
        reached, predicted = self.reached, self.of(name)
        errors = self.errors(name)
        plain = 100 * agreement.errors(reached, predicted)
        return Judgement(
            tasks=agreement.across_interval(reached, predicted),
            networks=agreement.mean_interval(agreement.within(reached, predicted)),
            median=agreement.quantile_interval(errors, 0.5),
            tail=agreement.quantile_interval(errors, 0.9),
            plain=agreement.quantile_interval(plain, 0.5) if name in SCORES else None,
            picked=agreement.share_interval(agreement.good_picks(reached, predicted, self.good)),
            lost=agreement.mean_interval([100 * lost for lost in agreement.points_lost(reached, predicted)]),
        )
