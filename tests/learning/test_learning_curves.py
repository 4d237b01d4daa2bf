"""Learning curves: points against leave-one-out of the subsets, laws against points made from them, forecasts."""

import math

import pytest
import torch

from netgrain.geometry.estimate import Estimate
from netgrain.learning.learning_curves import LearningCurve, fitted, learning_curve, loo_score
from netgrain.learning.targets import targets_of
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from tests.learning.test_leave_one_out import problem

SIZES = (125, 210, 354, 595, 1000)


def curve_of(error, stderr: float = 1e-4, sizes: tuple[int, ...] = SIZES) -> LearningCurve:
    return LearningCurve("accuracy", sizes, tuple(Estimate(1 - error(n), stderr, n) for n in sizes), 0)


def test_points_are_leave_one_out_of_subsets() -> None:
    F, Y = problem(n=160, d=20)
    targets, K = targets_of((Y[:, 0] > Y.median()).long()), F @ F.T
    curve = learning_curve(K, targets, seed=3)
    assert curve.sizes == (20, 34, 57, 95, 160)
    assert float(curve.scores[-1]) == float(loo_score(K, targets))
    order = torch.randperm(160, generator=generator_for(3, "learning curve"))
    halves = [order[:57], order[57:114]]
    scores = [float(loo_score(K[rows][:, rows], targets.of(rows))) for rows in halves]
    assert float(curve.scores[2]) == pytest.approx(sum(scores) / 2)
    assert curve.scores[2].stderr == pytest.approx(math.sqrt(curve.scores[2] * (1 - curve.scores[2]) / 114), rel=0.05)
    assert learning_curve(K, targets, seed=3).scores == curve.scores
    assert learning_curve(K, targets, seed=4).scores[0] != curve.scores[0]


def test_few_samples_still_have_a_curve() -> None:
    F, Y = problem(n=24, d=5)
    assert learning_curve(F @ F.T, targets_of(Y[:, 0])).sizes == (10, 12, 15, 19, 24)


@pytest.mark.parametrize(("floor", "slope", "exponent"), [(0.0, 0.3, 0.4), (0.1, 0.2, 1.0), (0.2, 0.0, 0.5)])
def test_laws_are_found_again(floor: float, slope: float, exponent: float) -> None:
    curve = curve_of(lambda n: floor + slope * (n / 1000) ** -exponent)
    law = curve.laws(floor=True)
    assert float(law.floors[0] + law.slopes[0] * 2 ** -law.exponents[0]) == pytest.approx(
        floor + slope * 2**-exponent, abs=2e-3
    )
    if slope:
        assert float(law.exponents[0]) == pytest.approx(exponent, abs=0.051)


def test_fits_are_those_of_a_search_over_all_parameters() -> None:
    sizes = torch.tensor(SIZES).double()
    g = torch.Generator().manual_seed(0)
    errors = 0.1 + 0.2 * (sizes / 1000) ** -0.7 + 0.01 * torch.randn(3, 5, generator=g, dtype=torch.float64)
    weights = torch.rand(5, generator=g, dtype=torch.float64) + 0.5
    exponents = (0.3, 0.7, 1.1)
    found = fitted(sizes, errors, weights, exponents, floor=True)
    grid = torch.linspace(0, 0.4, 41, dtype=torch.float64)
    for row in range(3):
        best = min(
            float(((errors[row] - a - b * (sizes / 1000) ** -c).square() * weights).sum())
            for a in grid
            for b in grid
            for c in exponents
        )
        own = found.floors[row] + found.slopes[row] * (sizes / 1000) ** -found.exponents[row]
        assert float(((errors[row] - own).square() * weights).sum()) <= best + 1e-12


def test_floors_are_never_negative() -> None:
    sizes = torch.tensor(SIZES).double()
    falling = torch.tensor([[0.5, 0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.1, 0.1, 0.2]]).double()
    found = fitted(sizes, falling, torch.ones(5), (0.05, 0.1), floor=True)
    assert bool((found.floors >= 0).all())
    assert bool((found.slopes >= 0).all())
    assert float(found.floors[0]) == 0
    assert float(found.slopes[1]) == 0


def test_forecasts_lie_between_both_laws_with_their_difference_in_the_error() -> None:
    curve = curve_of(lambda n: 0.1 + 0.2 * (n / 1000) ** -1.0)
    ahead = curve.at(4000)
    assert abs(ahead - (1 - 0.15)) < 2 * ahead.stderr
    assert curve.at(1000).stderr < 0.02
    assert curve.at(100_000).stderr > ahead.stderr
    with pytest.raises(NetgrainError, match="begins at 125"):
        curve.at(100)


def test_more_data_stop_helping_where_doubling_adds_less_than_a_point() -> None:
    """e = 0.3 (N/1000)^−1/2: e(N) − e(2N) = 0.0879 (N/1000)^−1/2 = 0.01 at N = 77,200."""
    found = curve_of(lambda n: 0.3 * (n / 1000) ** -0.5).enough()
    assert found is not None
    likely, low, high = found
    assert 0.5 * 77_200 < likely < 1.2 * 77_200
    assert low <= likely
    assert high is None or likely <= high
    flat = curve_of(lambda n: 0.4).enough()
    assert flat is not None
    assert flat[0] == 125


def test_it_reads_well() -> None:
    assert "125: 0.8" in repr(curve_of(lambda n: 0.2, stderr=0.01))
