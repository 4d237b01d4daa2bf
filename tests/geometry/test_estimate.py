"""A number with its error: intervals, means and copies by hand."""

import math
import pickle

import pytest

from netgrain.geometry.estimate import Estimate, mean


@pytest.mark.quick
def test_intervals_are_those_of_student() -> None:
    """With one degree of freedom Student's t is Cauchy's distribution: its upper quartile is tan(π/4) = 1."""
    assert Estimate(3.0, stderr=0.5, n=2).interval(0.5) == pytest.approx((2.5, 3.5))
    assert Estimate(3.0).interval() == (3.0, 3.0)


def test_mean_of_two_by_hand() -> None:
    found = mean([1.0, 3.0])
    assert (found.value, found.stderr, found.n) == (2.0, pytest.approx(1.0), 2)
    assert math.isnan(mean([5.0]).stderr)
    assert math.isnan(mean([]))


def test_a_notebook_shows_the_number_first() -> None:
    assert Estimate(3.0, stderr=0.5, n=25)._repr_html_().startswith("<b>3.0</b> ± 0.5<")
    assert "n = 25" in Estimate(3.0, stderr=0.5, n=25)._repr_html_()
    assert Estimate(3.0)._repr_html_().startswith("<b>3</b> (exact)<")
    assert "n =" not in Estimate(3.0)._repr_html_()


def test_copies_keep_every_field() -> None:
    found = pickle.loads(pickle.dumps(Estimate(1.0, math.nan, 4, 0.5)))  # noqa: S301
    assert found.as_dict() == {"value": 1.0, "stderr": None, "n": 4, "plug_in": 0.5}
