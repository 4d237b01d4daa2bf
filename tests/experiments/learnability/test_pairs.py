"""Predictors judged on pairs whose answers are known by hand."""

import math

import numpy as np
import pytest

from tests.experiments.learnability.made_up_pairs import made_up_pairs


def test_a_perfect_predictor_is_perfect() -> None:
    judged = made_up_pairs().judged["kernel"]
    assert judged.tasks.value == judged.networks.value == pytest.approx(1.0)
    assert [judged.median.value, judged.tail.value] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert judged.plain is not None
    assert judged.plain.value == 0.0
    assert (judged.picked.value, judged.lost.value) == (1.0, 0.0)


def test_others_have_what_they_can_have() -> None:
    """Neighbours order tasks the wrong way round and no networks; synflow orders networks and no tasks."""
    judged = made_up_pairs().judged
    assert set(judged) == {"kernel", "combined", "neighbours", "synflow"}
    assert judged["neighbours"].tasks.value == pytest.approx(-1.0)
    assert math.isnan(judged["neighbours"].networks.value)
    assert math.isnan(judged["neighbours"].lost.value)
    assert judged["neighbours"].median.value < 5  # a line with a negative slope makes up for it
    assert math.isnan(judged["synflow"].tasks.value)
    assert judged["synflow"].networks.value == pytest.approx(1.0)
    assert judged["synflow"].plain is None  # no accuracy


def test_networks_three_points_apart_are_told_apart() -> None:
    """3 % of 1,000 tests are missed by one and not by the other: 5.6 standard errors."""
    pairs = made_up_pairs()
    assert (pairs.good[:, -1] == 1).all()
    assert (pairs.good[:, :-1] == 0).all()


def test_without_tasks_that_need_features() -> None:
    pairs = made_up_pairs(off=0.2)
    rest = pairs.without_features()
    assert len(rest.tasks) == 8
    assert not any(task.features for task in rest.tasks)
    assert np.array_equal(rest.predicted["kernel"], rest.reached)
    assert set(rest.right) == {(t, j) for t in range(8) for j in range(4)}
    assert np.array_equal(rest.right[0, 0], pairs.right[1, 0])


def test_differences_between_predictors() -> None:
    pairs = made_up_pairs()
    assert pairs.better_than("neighbours").value == pytest.approx(2.0)
    assert pairs.better_within("synflow").value == pytest.approx(0.0)
