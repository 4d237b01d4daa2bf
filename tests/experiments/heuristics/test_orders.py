"""Claims that a measure follows a setting."""

import math

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.orders import monotone

FALLING = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": [[9, 8, 7, 6], [5, 4, 3, 3.5]]}, [[True] * 4] * 2)


def test_runs_that_missed_are_left_out_and_told() -> None:
    values, rows = (1.0, 2.0, 3.0, 4.0, 5.0), [[9, 8, 100, 6, 5]]
    bad = SweepCurve(values, {"complexity": rows}, [[True, True, False, True, True]])
    assert bad.missed == 1
    assert bad.per_seed() == [-1.0]
    found = monotone(bad, "x", -1)
    assert (found.value, found.note) == (-1.0, "1 of 5 runs missed the target loss and are left out")
    none = SweepCurve((1.0, 2.0, 3.0), {"complexity": [[1, 2, 3]]}, [[False] * 3])
    assert monotone(none, "x", 1).verdict == "undecided"
    assert math.isnan(none.rho().value)


def test_claims_can_come_out_either_way() -> None:
    rows = [[4, 3, 2, 1], [7, 6, 5, 4], [10, 9, 8, 7]]
    steep = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": rows}, [[True] * 4] * 3)
    assert monotone(steep, "x", -1).verdict == "holds"
    assert monotone(steep, "x", 1).verdict == "fails"
    assert monotone(steep, "x", 0).verdict == "fails"
    assert monotone(steep, "x", -1, all_runs=True).verdict == "fails"
    assert monotone(FALLING, "x", -1, all_runs=True).verdict in ("fails", "undecided")
    mixed = [[2, 4, 1, 3], [3, 1, 4, 2], [2, 4, 1, 3], [3, 1, 4, 2]]
    flat = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": mixed}, [[True] * 4] * 4)
    assert [monotone(flat, "x", sign).verdict for sign in (-1, 1, 0)] == ["fails", "fails", "holds"]


def test_three_settings_are_no_order() -> None:
    short = SweepCurve((1.0, 2.0, 3.0), {"complexity": [[3, 2, 1], [6, 5, 4], [9, 8, 7]]}, [[True] * 3] * 3)
    assert monotone(short, "x", -1).verdict == "undecided"
    missed = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": [[4, 3, 2, 1]] * 3}, [[True, True, True, False]] * 3)
    assert monotone(missed, "x", -1).verdict == "undecided"


def test_a_claim_says_what_was_measured_over_which_runs() -> None:
    curve = SweepCurve((1.0, 2.0, 3.0), {"arc": [[1, 2, 3], [2, 3, 4]]}, [[True] * 3] * 2)
    said = [monotone(curve, "x", 1, measure="arc", all_runs=together).statement for together in (False, True)]
    assert said == [
        "Spearman's rho of setting and arc length within each seed is at least 0.8 on average",
        "Spearman's rho of setting and arc length over all runs is at least 0.95",
    ]
