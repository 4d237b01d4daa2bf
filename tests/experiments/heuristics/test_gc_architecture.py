"""Architectures at equal loss: claims follow the numbers, networks are trained once, the figure shows every part."""

import math

import pytest

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.gc_architecture import CHOICES, Config, Result, change_of, claims, figure
from tests.experiments.conftest import SmokeRun


def curve(rows: list[list[float]], good: bool = True) -> SweepCurve:
    return SweepCurve(tuple(range(len(rows[0]))), {"complexity": rows}, [[good] * len(row) for row in rows])


def _result(falling: bool, right: bool) -> Result:
    along = [[4, 3, 2, 1], [8, 7, 6, 5], [9, 6, 5, 2]] if falling else [[1, 2, 3, 4], [5, 6, 7, 8], [2, 5, 6, 9]]
    pairs = {}
    for name, choice in CHOICES.items():
        up = (choice.sign > 0) == right
        pairs[name] = curve([[1, 2 * e] if up else [2 * e, 1] for e in (0.9, 1.0, 1.1)])
    control = curve([[1, 1.01], [1, 0.99], [1, 1.0]]) if right else curve([[1, 2.0], [1, 2.1], [1, 1.9]])
    return Result(Config(seeds=3), "digits", curve(along), curve(along), pairs, control)


@pytest.mark.quick
def test_claims_follow_the_numbers() -> None:
    assert {c.verdict for c in claims(_result(True, True))} == {"holds"}
    assert {c.verdict for c in claims(_result(False, False))} == {"fails"}
    assert [c.basis for c in claims(_result(True, True))] == ["paper"] * 2 + ["own"] * 6
    assert len(figure(_result(True, True)).axes) == 3


@pytest.mark.quick
def test_pairs_that_missed_the_loss_are_left_out() -> None:
    both = SweepCurve((0, 1), {"complexity": [[1, math.e], [1, 100.0]]}, [[True, True], [True, False]])
    assert (change_of(both).value, change_of(both).n) == (1.0, 1)


def test_the_base_is_trained_once(smoke_run: SmokeRun) -> None:
    """Two widths, two depths (one the base), skips at depth 2 and without, four parts, and the base again."""
    networks = 1 + 1 + 1 + 2 + 4 + 1  # width 2, width 4, the base, skips and none at depth 2, parts, the base again
    units = list((smoke_run("gc-architecture") / "units").iterdir())
    assert len(units) == 1 + 2 * (networks + 1)  # which images, and for each seed the networks and depth 1
