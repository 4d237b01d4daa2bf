"""Corollary A.4 on networks: gradients by autograd are those of the formula, draw by draw."""

from functools import partial

import pytest
import torch

from netgrain.experiments.theory import normalised
from netgrain.experiments.theory.statements import Job
from netgrain.families.batch_statistics import data_statistics
from netgrain.families.members import member
from tests.experiments.theory.measured_rows import rows

pytestmark = pytest.mark.xdist_group("statements")  # one process measures each of them once


def test_one_member_is_the_formula_of_its_kernel() -> None:
    data = normalised.uneven(Job())
    theta = member(data_statistics(partial(normalised.network, "position"), data.X), 0, 0)[0].weight.detach()
    expected = normalised.by_formula(data, theta.flatten()[None].double(), 1.0)
    found = normalised.rows_of("position", data, 1, 0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(found, normalised.by_formula(data, theta.flatten()[None].double(), 2.0), rtol=0.1)


def test_the_formula_is_told_from_the_printed_one() -> None:
    right, printed, position, channel = rows("corollary-a4-network")
    assert (right.corrected, printed.paper) == ("holds", "fails")
    assert position.paper == "holds"
    assert abs(position.measured.value + 1) < 0.05
    assert channel.measured.value == 0 or abs(channel.measured.value) < 1e-9
