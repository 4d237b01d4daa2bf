"""Costs are counted for every kind of form, and large ones are far below those of the matrix."""

import pytest
import torch

from netgrain.families.convolution import ConvStem
from netgrain.geometry.form_costs import multiplications
from netgrain.geometry.forms import Factored
from netgrain.geometry.probed import probed
from netgrain.geometry.standardised_forms import behind_standardised
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread

STEM = ConvStem((64, 64), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
ROWS = Factored.of_members(torch.ones(2, 5, STEM.out_size))


@pytest.mark.quick
def test_structured_forms_cost_what_their_parts_cost() -> None:
    each = 10 * STEM.out_size
    spread = Spread(ROWS, STEM)
    assert multiplications(spread) == multiplications(probed(spread)) == 9 * each
    assert multiplications(Kronecker(spread, 3, torch.arange(3 * spread.size))) == 27 * each
    standardised = behind_standardised(ROWS, STEM, 3, torch.arange(3 * spread.size))
    assert 27 * each < multiplications(standardised) <= 30 * each
    factor = torch.eye(64, dtype=torch.float64)[None]
    assert multiplications(Separated((factor, factor))) == 64 * 64 * 128
