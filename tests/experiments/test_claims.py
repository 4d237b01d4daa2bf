"""Claims come out as the numbers say."""

import math

import pytest

from netgrain import Estimate
from netgrain.experiments.claims import ROUNDING, claim, decided, verdict
from netgrain.geometry.estimate import mean


def test_verdicts() -> None:
    assert verdict(Estimate(5.0, 0.1, 10), 4, None) == "holds"
    assert verdict(Estimate(5.0, 0.1, 10), 5.1, None) == "undecided"
    assert verdict(Estimate(5.0, 0.1, 10), 6, None) == "fails"
    assert verdict(Estimate(5.0, 0.1, 10), None, 4) == "fails"
    assert verdict(Estimate(5.0, 0.1, 10), 4, 6) == "holds"
    assert verdict(Estimate(5.0, math.nan, 1), 4, 6) == "undecided"


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (Estimate(0.0, 0.0, 5), 0, None, "undecided"),  # "positive", and no difference at all in any seed
        (Estimate(0.0, 0.0, 5), None, 0, "undecided"),
        (Estimate(0.0), 0, None, "undecided"),
        (mean([0.0, 0.0, 0.0]), 0, None, "undecided"),
        (Estimate(2.0, 0.0, 1), 0, None, "undecided"),  # one result has no error
        (Estimate(0.0, 0.0, 5), 0, 0, "holds"),  # an equality is met on its bound
        (Estimate(0.0, 0.0, 5), -0.1, 0.1, "holds"),
        (Estimate(1.0, 0.0, 20), 1 - ROUNDING, None, "holds"),  # "in every seed"
        (Estimate(0.95, 0.0, 20), 1 - ROUNDING, None, "fails"),
        (Estimate(0.0, 1e-3, 5), 0, None, "undecided"),
        (Estimate(1.0, 0.0, 5), 0, None, "holds"),
        (Estimate(-1.0, 0.0, 5), 0, None, "fails"),
    ],
)
def test_a_value_without_spread_on_its_bound_is_no_evidence(
    value: Estimate, low: float | None, high: float | None, expected: str
) -> None:
    found = claim("x", "x is positive", value, low=low, high=high)
    assert found.verdict == expected
    if value.n > 1 and expected == "undecided" and value.stderr == 0:
        assert found.needs == "a value off its bound, on which all 5 results lie".replace("5", str(value.n))
    assert mean([1.0, 3.0]).stderr == pytest.approx(1.0)
    assert math.isnan(mean([1.0]).stderr)
    assert not decided([claim("a", "b", Estimate(1.0, 1.0, 5), low=0)])


def test_what_an_undecided_claim_needs() -> None:
    def needs(value: float, stderr: float, n: int) -> str:
        return claim("x", "x > 0", Estimate(value, stderr, n), low=0).needs

    assert needs(1.0, 1.0, 10) == f"about {10 * 1.96**2:.0f} instead of 10".replace("38", "39")
    assert needs(5.0, 1.0, 10) == ""  # decided
    assert needs(1.0, float("nan"), 1) == "at least two independent results"
    assert "further from its bound" in needs(0.01, 1.0, 10)


def test_what_a_claim_rests_on_is_the_paper_where_it_speaks() -> None:
    value = Estimate(1.0, 0.1, 5)
    assert claim("x", "x", value, paper="large").basis == "paper"
    assert claim("x", "x", value).basis == "own"
    assert claim("x", "x", value, paper="large", basis="counter").basis == "counter"


def test_a_claim_on_networks_that_are_not_fitted_may_hold_but_not_fail() -> None:
    value = Estimate(1.0, 0.1, 5)
    assert claim("x", "x", value, low=2.0, fitted=False).verdict == "not fitted"
    assert "fitted" in claim("x", "x", value, low=2.0, fitted=False).needs
    assert claim("x", "x", value, low=0.0, fitted=False).verdict == "holds"
    assert claim("x", "x", value, low=1.1, fitted=False).verdict == "undecided"
