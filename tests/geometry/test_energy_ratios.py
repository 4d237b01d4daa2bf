"""Energies along directions and their ratios, by hand."""

import math

import pytest
import torch

from netgrain.geometry.energy_ratios import energy, leading_ratio, ratio_along, ratio_of
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Factored

FIRST = torch.tensor([[1.0, 0.0]], dtype=torch.float64)


@pytest.mark.quick
def test_two_members_against_a_known_matrix() -> None:
    """Energies 1 and 3 along the first axis: 2 ± 1, over the 4 that is known."""
    sampled = Factored.of_members(torch.tensor([[[1.0, 5.0]], [[math.sqrt(3), 7.0]]], dtype=torch.float64))
    known = Dense(torch.diag(torch.tensor([4.0, 9.0], dtype=torch.float64)))
    seen = energy(sampled, FIRST)
    assert (seen.value, seen.stderr, seen.n) == (pytest.approx(2), pytest.approx(1), 2)
    assert energy(known, FIRST).stderr == 0
    ratio = ratio_along(known, sampled, FIRST)
    assert (ratio.value, ratio.stderr) == (pytest.approx(0.5), pytest.approx(0.25))


def test_ratios_with_zero_and_with_two_errors() -> None:
    assert ratio_of(Estimate(0.0), Estimate(0.0)).value == 1
    assert math.isinf(ratio_of(Estimate(2.0), Estimate(0.0)))
    both = ratio_of(Estimate(3.0, 0.9, 8), Estimate(1.0, 0.4, 8))  # relative errors 0.3 and 0.4: together 0.5
    assert (both.value, both.stderr) == (pytest.approx(3), pytest.approx(1.5))


def test_leading_directions_come_from_the_other_half() -> None:
    """Even and odd members lie along different axes: what one half finds, the other half does not see."""
    identity = torch.eye(20, dtype=torch.float64)
    apart, same = (Factored.of_members(rows.repeat(4, 1)[:, None]) for rows in (identity[:2], identity[:1]))
    assert leading_ratio(Dense(identity), apart).value == pytest.approx(0)
    assert leading_ratio(Dense(identity), same).value == pytest.approx(1)
