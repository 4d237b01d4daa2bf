"""Multiplication without a table."""

import pytest
import torch

from netgrain.groups import Group
from tests.groups.known_groups import every_group


@pytest.mark.quick
@every_group
def test_index_zero_is_the_identity_and_inverses_invert(G: Group) -> None:
    every = torch.arange(G.order)
    assert torch.equal(G.cayley[0], every)
    assert torch.equal(G.cayley[:, 0], every)
    assert torch.equal(G.cayley[every, G.inverse], torch.zeros(G.order, dtype=torch.int64))
    assert torch.equal(G.multiply(every[:, None], every), G.cayley)
