"""Networks before training against their closed form."""

import math

import pytest
import torch

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics import starts
from netgrain.experiments.heuristics.starts import Fresh, expected_at_start


@pytest.mark.parametrize("scheme", ["he", "lecun", "glorot", "torch"])
def test_complexity_at_the_start_is_the_closed_form(scheme: str) -> None:
    sizes = (8, 20, 20, 5)
    unit = {"fresh": {"sizes": sizes, "scheme": scheme, "scale": 1.0, "seed": 0, "count": 60}}
    found = torch.tensor(starts._fresh(unit).numbers["complexity"], dtype=torch.float64)
    error = (found.mean() - expected_at_start(scheme, sizes)) / (found.std() / math.sqrt(len(found)))
    assert abs(float(error)) < 4


def test_claims_of_fresh_networks_can_fail() -> None:
    """Three layers: twice the weights have 2⁶ times the complexity."""
    sizes = (8, 20, 20, 5)
    expected = expected_at_start("he", sizes)
    around = [expected - 1.0, expected, expected + 1.0]
    good = Fresh(sizes, SweepCurve((1.0, 2.0), {"complexity": [[1, 64], [2, 128]]}, [[True] * 2] * 2), {"he": around})
    far = [v + 10 for v in around]
    bad = Fresh(sizes, SweepCurve((1.0, 2.0), {"complexity": [[1, 32], [2, 128]]}, [[True] * 2] * 2), {"he": far})
    assert [f.scale_claims()[0].verdict for f in (good, bad)] == ["holds", "undecided"]
    assert [f.scheme_claims()[0].verdict for f in (good, bad)] == ["holds", "fails"]
