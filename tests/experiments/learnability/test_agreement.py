"""Statistics of predictions, on made-up numbers whose answers are known by hand."""

import math

import numpy as np
import pytest

from netgrain.complexity.sweeps import spearman
from netgrain.experiments.learnability import agreement as a

NAN = math.nan


def test_rank_correlation_is_spearmans() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        x, y = generator.integers(0, 5, 7).astype(float), generator.normal(size=7)
        assert a.rank_correlation(x, y) == pytest.approx(spearman(x.tolist(), y.tolist()), abs=1e-12)
    assert math.isnan(a.rank_correlation(np.array([1.0, NAN, 3.0]), np.array([1.0, 2.0, 3.0])))  # two pairs are too few
    assert math.isnan(a.rank_correlation(np.ones(4), np.arange(4.0)))


REACHED = np.array([[0.9, 0.8, 0.7], [0.6, 0.7, 0.5], [0.5, 0.4, 0.3], [0.2, NAN, NAN]])
TOLD = np.array([[0.8, 0.7, 0.9], [0.7, 0.6, 0.5], [0.6, 0.3, 0.2], [0.1, NAN, NAN]])


def test_across_tasks_and_within_them() -> None:
    """The first network is in the same order on all four tasks, and so are the others on their three."""
    assert a.across(REACHED, TOLD) == pytest.approx([1.0, 1.0, 1.0])
    # ranks 3 2 1 against 2 1 3: 1 − 6·(1 + 1 + 4)/24; 2 3 1 against 3 2 1: 1 − 6·2/24
    assert a.within(REACHED, TOLD)[:3] == pytest.approx([-0.5, 0.5, 1.0])
    assert math.isnan(a.within(REACHED, TOLD)[3])
    assert a.mean_interval(a.within(REACHED, TOLD)).value == pytest.approx(1 / 3)
    assert a.mean_interval(a.within(REACHED, TOLD)).tasks == 3


def test_the_line_of_a_task_is_fitted_without_it() -> None:
    """Reached = 0.1 + 0.5 · told on three tasks; the fourth is far off and must not bend its own line."""
    told = np.array([[0.2, 0.4], [0.6, 0.3], [0.8, 0.5], [0.4, 0.6]])
    reached = 0.1 + 0.5 * told
    reached[3] += 0.3
    found = a.corrected(reached, told)
    assert found[3] == pytest.approx([0.3, 0.4])
    assert a.errors(reached, found)[3] == pytest.approx([0.3, 0.3])
    slope, start = np.polyfit(told[1:].ravel(), reached[1:].ravel(), 1)
    assert found[0] == pytest.approx(start + slope * told[0])


def test_quantiles_over_pairs() -> None:
    errors = np.array([[1.0, 2.0], [3.0, NAN], [4.0, 5.0]])
    assert a.quantile_interval(errors, 0.5).value == 3.0
    assert a.quantile_interval(errors, 0.9).value == pytest.approx(4.6)
    assert a.quantile_interval(errors, 0.5).low >= 1.0


def test_picks_and_points_lost() -> None:
    """Networks 2, 0 and 0 are picked, best are 0, 1 and 0; the fourth task has one network."""
    assert a.picks(REACHED, TOLD) == [2, 0, 0, None]
    assert a.points_lost(REACHED, TOLD)[:3] == pytest.approx([0.2, 0.1, 0.0])
    good = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [1, NAN, NAN]], dtype=float)
    assert a.good_picks(REACHED, TOLD, good)[:3] == [0.0, 1.0, 1.0]
    assert a.share_interval(a.good_picks(REACHED, TOLD, good)).value == pytest.approx(2 / 3)
    assert a.picks(REACHED, np.ones_like(REACHED)) == [None] * 4  # one number for all is no choice


def test_not_significantly_worse_is_judged_test_by_test() -> None:
    """Of 1,000 tests the second network misses 10 that the best gets right: sd 0.0995/√1000, a difference of 3.2
    errors. The third misses 20 and gets 18 others right, a difference of 0.002 with error 0.006."""
    best = np.ones((1, 1000), dtype=bool)
    best[0, 500:530] = False
    second, third = best.copy(), best.copy()
    second[0, :10] = False
    third[0, :20] = False
    third[0, 500:518] = True
    assert a.not_worse([best, second, third]) == [True, False, True]


def test_a_spread_over_seeds_counts() -> None:
    """Seeds 10 points apart cannot tell a difference of 4 points, equal seeds can."""
    steady = np.zeros((3, 1000), dtype=bool)
    steady[:, :540] = True
    spread = np.zeros((3, 1000), dtype=bool)
    for seed, right in enumerate((400, 500, 600)):
        spread[seed, :right] = True
    same = np.zeros((3, 1000), dtype=bool)
    same[:, :500] = True
    assert a.not_worse([steady, spread]) == [True, True]
    assert a.not_worse([steady, same]) == [True, False]


def test_warnings() -> None:
    """Three pairs are underrated by more than ten points, two of them warned; one of four others is warned."""
    reached = np.array([[0.9, 0.8, 0.7, 0.5], [0.6, 0.6, 0.6, NAN]])
    told = np.array([[0.7, 0.6, 0.5, 0.45], [0.55, 0.9, 0.6, NAN]])
    warned = np.array([[1, 1, 0, 0], [1, 0, 0, NAN]], dtype=float)
    assert a.warned(reached, told, warned) == pytest.approx((2 / 3, 1 / 4))
    caught, others = a.warned_intervals(reached, told, warned)
    assert (caught.value, others.value) == pytest.approx((2 / 3, 1 / 4))
    assert (caught.tasks, others.tasks) == (1, 2)  # all underrated pairs are of one task, which has no error
    assert math.isnan(caught.estimate.stderr) or caught.estimate.n == 1


def test_fixed_ranking_knows_only_other_tasks() -> None:
    """Task 0 gets the means of tasks 1 and 2; the table, with one network, has no other like it."""
    found = a.fixed_ranking(REACHED)
    assert found[0] == pytest.approx([0.55, 0.55, 0.4])
    assert np.isnan(found[3]).all()


def test_bootstrap_of_a_mean_has_its_standard_error() -> None:
    values = np.random.default_rng(1).normal(size=200)
    found = a.bootstrap(lambda rows: float(values[rows].mean()), range(200), draws=2000)
    expected = values.std(ddof=1) / math.sqrt(200)
    assert found.stderr == pytest.approx(expected, rel=0.08)
    assert found.low == pytest.approx(values.mean() - 1.96 * expected, abs=0.3 * expected)
    assert math.isnan(a.bootstrap(lambda rows: 1.0, [0]).stderr)
    assert math.isnan(a.bootstrap(lambda rows: 1.0, []).value)


def test_a_share_of_all_is_not_certain() -> None:
    """Eight of eight: p = 9/10, error √(0.09/8)."""
    assert a.share_interval([1.0] * 8).stderr == pytest.approx(math.sqrt(0.09 / 8))


def test_networks_alike_are_within_the_margin_or_the_errors_of_samples() -> None:
    predicted = np.array([[0.90, 0.88, 0.86], [0.5, 0.45, 0.1], [0.5, 0.45, 0.1], [0.9, np.nan, 0.9]])
    found = a.alike(predicted, [100_000, 100_000, 100, 1000])
    assert found[:3].tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 0]]
    assert np.isnan(found[3]).all()
