"""Relative gains: a basis adds up to d, errors cover the truth, and a zero geometry has none."""

import pytest
import torch

from netgrain import Geometry, NetgrainError, average_geometry
from netgrain.auditing.gains import gain_estimates, relative_gains
from tests.auditing.conftest import SHAPE, small


def test_gains_of_a_basis_add_up_to_d(G: Geometry) -> None:
    gains, errors = relative_gains(G, 3 * torch.eye(64).reshape(64, *SHAPE))
    assert float(gains.sum()) == pytest.approx(64)
    assert errors.tolist() == [0.0] * 64


def test_errors_cover_the_closed_form(G: Geometry) -> None:
    sampled = average_geometry(small, SHAPE, members=32, first_layer="never")
    U = torch.cat([G.directions(2), torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(0)).double()])
    exact, _ = relative_gains(G, U)
    gains, errors = relative_gains(sampled, U)
    assert bool((errors > 0).all())
    assert bool(((gains - exact).abs() < 4 * errors).all())


def test_of_zero_and_of_a_sketch() -> None:
    with pytest.raises(NetgrainError, match="the geometry is zero"):
        relative_gains(Geometry.from_matrix(torch.zeros(2, 2)), torch.eye(2))


def test_rounding_is_no_gain() -> None:
    G = Geometry.from_matrix(torch.diag(torch.tensor([2.0, 1e-14, 0.0, 1e-3], dtype=torch.float64)))
    found = gain_estimates(G, torch.eye(4))
    assert [e.value for e in found[1:3]] == [0.0, 0.0]
    assert found[3].value == pytest.approx(4e-3 / 2.001)
    assert {e.stderr for e in found} == {0.0}
