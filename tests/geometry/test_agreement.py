"""The check of a closed form: bands and standard errors by hand, what is right passes and what is wrong fails."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.geometry.agreement import _edges, standard_errors
from netgrain.geometry.estimate import Estimate


@pytest.mark.quick
def test_a_linear_layer_agrees_and_twice_its_geometry_does_not() -> None:
    make = partial(nn.Linear, 3, 1, bias=False)
    right = ng.check(make, (3,), members=200, workers=1, progress=False)
    assert right.agrees, str(right)
    assert right.deviation < 0.3
    twice = replace(right.closed, form=right.closed.form.scaled(2.0))
    wrong = ng.check(make, (3,), members=200, closed=twice, workers=1, progress=False)
    assert not wrong.agrees
    assert wrong.bands[0].ratio.value == pytest.approx(right.bands[0].ratio.value / 2)
    with pytest.raises(ng.NetgrainError, match="at least 64 members"):
        ng.check(make, (3,), members=63)


def test_bands_are_half_decades_down_to_a_millionth() -> None:
    shares = torch.tensor([1.0, 0.5, 0.2, 0.01, 1e-7], dtype=torch.float64)
    assert _edges(shares) == [(0, 2), (2, 3), (3, 4)]


def test_standard_errors_of_few_batches() -> None:
    """Two batches: Student's t is Cauchy's, which exceeds 1 with probability 1/4, as a normal deviate 0.674 does."""
    assert standard_errors(Estimate(2.0, 1.0, 2)) == pytest.approx(0.6744898)
    assert standard_errors(Estimate(0.0, 1.0, 2)) == pytest.approx(-0.6744898)
    assert standard_errors(Estimate(1.0, 0.0, 8)) == 0
    assert math.isinf(standard_errors(Estimate(1.1, 0.0, 8)))
