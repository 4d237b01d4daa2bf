"""What is said of a projection."""

import pytest

from netgrain.geometry.projection import Projection


@pytest.mark.quick
def test_every_kind_has_its_words() -> None:
    assert "multiples of 32 x 32" in str(Projection("lattice", 1.0, 0.0, (32, 32)))
    assert "on the diagonal" in str(Projection("diagonal", 0.99, 0.01, (8, 8)))
    assert str(Projection("alike", 0.9912, 0.0021)).endswith("0.991 ± 0.002 of ‖G‖² lies there")
